"""The model files on this machine: their names, their records, and which file a name means.

Decides what a name or path in the settings means (`model_file`, the only place that does), and what
is known of each file. What is *not* here: getting files (`embedded`, `hub`), loading them.

A model is `NAME.gguf` in the models folder, which all profiles share. Beside it lies `NAME.json`
with where it came from; a file without one was put there by hand and is as good.

Invariants:

- a name never leads out of the models folder;
- a record counts only for a file of the size that it tells;
- a damaged record is no record; nothing else of a record is trusted than what a person may read.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tactful.errors import NotFound
from tactful.model_reports import Vouched
from tactfuld.problems import suggestion
from tactfuld.settings import MODEL_NAME

SUFFIX: Final = ".gguf"
RECORD_SUFFIX: Final = ".json"
LARGEST_RECORD: Final = 64 * 1024

ShortText = Annotated[str, Field(min_length=1, max_length=500)]


class ModelRecord(BaseModel):
    """Where a file came from.

    Attributes:
        sha256: of its bytes when they were installed; `vouched_by` says what it was compared with.
        installed_at: seconds since 1970.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    version: Literal[1] = 1
    source: ShortText
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    vouched_by: Vouched
    size: Annotated[int, Field(gt=0)]
    licence: ShortText | None
    installed_at: Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file that can be named; `record` is None for one that was put there by hand."""

    name: str
    path: Path
    size: int
    record: ModelRecord | None


def model_file(use: str, models: Path) -> Path:
    """The file that `model.use` means: a name in the models folder, or a whole path."""
    if "/" in use:
        return Path(use).expanduser()
    return models / f"{use}{SUFFIX}"


def installed_models(models: Path) -> tuple[ModelFile, ...]:
    """What is in the models folder under a name that the settings take, by name."""
    found = [_model_at(path) for path in sorted(models.glob(f"*{SUFFIX}"))]
    return tuple(
        model for model in found if model is not None and re.fullmatch(MODEL_NAME, model.name)
    )


def find_model(named: str, models: Path) -> ModelFile:
    """The model of a name or path.

    Raises:
        NotFound: there is none.
    """
    path = model_file(named, models)
    if "/" in named or re.fullmatch(MODEL_NAME, named):
        found = _model_at(path)
        if found is not None:
            return found
    if "/" in named:
        raise NotFound(f"There is no model file {path}. Check the path.")
    names = [model.name for model in installed_models(models)]
    raise NotFound(
        f"There is no model named {named} on this machine{suggestion(named, names)} "
        "`tactful model list` shows what there is and what can be installed."
    )


def write_record(model: Path, record: ModelRecord) -> None:
    """Puts a record beside a model file that is there or is about to be."""
    target = _record_of(model)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".record-")
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o644)
            file.write(record.model_dump_json(indent=1) + "\n")
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def delete_model(model: ModelFile) -> None:
    """Takes a file and its record away."""
    model.path.unlink()
    _record_of(model.path).unlink(missing_ok=True)


def _model_at(path: Path) -> ModelFile | None:
    if not path.is_file():
        return None
    name = path.name.removesuffix(SUFFIX)
    size = path.stat().st_size
    record = _read_record(_record_of(path))
    matching = record if record is not None and record.size == size else None
    return ModelFile(name, path, size, matching)


def _record_of(model: Path) -> Path:
    return model.with_name(model.name.removesuffix(SUFFIX) + RECORD_SUFFIX)


def _read_record(path: Path) -> ModelRecord | None:
    try:
        with path.open("rb") as file:
            return ModelRecord.model_validate_json(file.read(LARGEST_RECORD))
    except (OSError, ValidationError):
        return None
