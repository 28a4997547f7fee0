"""Finding a planted text wherever it may have leaked, in any form that code commonly gives it."""

from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Mapping
from pathlib import Path

ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")


def disguises(text: str) -> Mapping[str, bytes]:
    """The forms of a text, by name: what stands inside a longer text of the same form."""
    forms = {
        **{encoding: text.encode(encoding) for encoding in ENCODINGS},
        "json": json.dumps(text).strip('"').encode(),
        "url": urllib.parse.quote(text).encode(),
        "reversed": text[::-1].encode(),
        "hex": text.encode().hex().encode(),
        "HEX": text.encode().hex().upper().encode(),
        "hex of utf-16-le": text.encode("utf-16-le").hex().encode(),
    }
    for encoding in ("utf-8", "utf-16-le"):
        for offset in range(3):
            padded = bytes(offset) + text.encode(encoding) + bytes(3)
            for kind, encode in (("base64", base64.b64encode), ("url", base64.urlsafe_b64encode)):
                # Without the ends, in which the bytes around the text have a part.
                forms[f"{kind} of {encoding} at {offset}"] = encode(padded)[4:-8]
    assert min(len(form) for form in forms.values()) >= 12, "shorter ones are found by chance"
    return forms


def found_in(data: bytes, *planted: str) -> list[str]:
    """The forms of the planted texts that are in some bytes; letter case does not count."""
    lowered = data.lower()
    return [
        f"{text!r} as {name}"
        for text in planted
        for name, form in disguises(text).items()
        if form.lower() in lowered
    ]


def found_below(folder: Path, *planted: str, but: frozenset[Path] = frozenset()) -> list[str]:
    """Files below a folder that have a planted text, in their bytes or their names."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path not in but:
            name = str(path.relative_to(folder)).encode()
            found += [
                f"{path}: {form}" for form in found_in(name + b"\n" + path.read_bytes(), *planted)
            ]
    return found
