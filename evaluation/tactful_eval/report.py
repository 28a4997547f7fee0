"""Results as JSON and as text; what is printed, and nothing about how it was found."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence

Value = object


def as_json(document: Mapping[str, Value]) -> str:
    """One object on one line; numbers with six decimals, an infinite one as the word `inf`."""
    return json.dumps(_plain(document), ensure_ascii=False)


def table(header: Sequence[str], lines: Iterable[Sequence[Value]]) -> str:
    """Columns, padded; numbers with three decimals."""
    texts = [list(header), *([_shown(cell) for cell in line] for line in lines)]
    widths = [max(len(line[column]) for line in texts) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in texts
    )


def _shown(cell: Value) -> str:
    if cell is None:
        return "-"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def _plain(value: Value) -> Value:
    match value:
        case float():
            return "inf" if math.isinf(value) else round(value, 6)
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case _:
            return value
