"""Pulling a model: which file of the hub is meant, and the name it gets on this machine.

What is *not* here: what the hub says and sends (`hub`), what the catalogue offers (`catalogue`).

Invariants:

- a model's name belongs to one file of the hub: another one never takes its place, nor that of a
  file that somebody put there by hand;
- the catalogue's names are for the catalogue's files;
- a file appears under its name whole, with its record, in one rename.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tactful.errors import AlreadyExists, NotFound, UsageError
from tactfuld.models.catalogue import CATALOGUE, HubFile, offer_of
from tactfuld.models.hub import Progress, RemoteFile, Repository, fetch, look_up
from tactfuld.models.installed import ModelFile, ModelRecord, find_model, model_file, write_record

PREFERRED: Final = "q4_k_m"
SPLIT: Final = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
LONGEST_NAME: Final = 80


@dataclass(frozen=True, slots=True)
class Pulled:
    """A model that is here now; `fetched` is false where it was before."""

    model: ModelFile
    fetched: bool


def wanted_file(words: str) -> tuple[str, str | None]:
    """The repository and the file, if one is named, of `OWNER/NAME` or `OWNER/NAME/FILE`.

    Raises:
        UsageError: it is neither.
    """
    parts = words.split("/", 2)
    if len(parts) < 2 or not all(parts):
        raise UsageError(
            f"{words} is not a model of the hub. Write OWNER/NAME, or OWNER/NAME/FILE.gguf; or a "
            "name that `tactful model list` shows."
        )
    return "/".join(parts[:2]), parts[2] if len(parts) == 3 else None


def pull(repository: str, file: str | None, models: Path, progress: Progress) -> Pulled:
    """Makes sure that a file of the hub is here, as the hub has it now.

    Raises:
        TactfulError: as `hub.look_up`, `choose` and `hub.fetch`.
        OSError: the models folder cannot be written.
    """
    remote = choose(look_up(repository), file)
    name = name_for(remote, models)
    target = model_file(name, models)
    if _is_here(target, remote):
        return Pulled(find_model(name, models), fetched=False)
    models.mkdir(parents=True, exist_ok=True)
    part = fetch(remote, models, progress)
    write_record(target, _record(remote))
    part.chmod(0o644)
    part.replace(target)
    _force_to_disk(models)
    return Pulled(find_model(name, models), fetched=True)


def choose(repository: Repository, file: str | None) -> RemoteFile:
    """The file that is meant: the one named, the only one, or the only one of the usual kind.

    Raises:
        NotFound: there is none, or there are several.
    """
    whole = [found for found in repository.files if not SPLIT.search(found.origin.file)]
    names = [found.origin.file for found in whole]
    if file is not None:
        return _named(repository, file, whole)
    usual = [found for found in whole if PREFERRED in found.origin.file.lower()]
    for candidates in (whole, usual):
        if len(candidates) == 1:
            return candidates[0]
    if not whole:
        raise NotFound(
            f"The repository {repository.name} has no whole GGUF file. Look for one whose name "
            "ends in -GGUF."
        )
    raise NotFound(
        f"The repository {repository.name} has several models; name one of its files: "
        f"{', '.join(sorted(names))}."
    )


def name_for(remote: RemoteFile, models: Path) -> str:
    """The name that this file has, or will have, on this machine.

    Raises:
        AlreadyExists: the catalogue has a name for it, and another file has that.
    """
    offered = offer_of(remote.origin)
    if offered is not None:
        taken = model_file(offered.name, models)
        if not _is_free(taken, remote.origin):
            raise AlreadyExists(
                f"The name {offered.name} is taken by another file, {taken}. "
                "Rename or remove that one first; nothing was changed."
            )
        return offered.name
    owner = remote.origin.repository.partition("/")[0]
    stem = Path(remote.origin.file).stem
    reserved = {known.name for known in CATALOGUE}
    for words in (stem, f"{owner}-{stem}"):
        name = _as_name(words)
        if name not in reserved and _is_free(model_file(name, models), remote.origin):
            return name
    # Nobody else can have this one but with the same content.
    return f"{_as_name(stem)[: LONGEST_NAME - 17]}-{remote.sha256[:16]}"


def _named(repository: Repository, file: str, whole: list[RemoteFile]) -> RemoteFile:
    if SPLIT.search(file):
        raise NotFound(f"{file} is a part of a model. Choose one that is whole, in a single file.")
    for found in whole:
        if found.origin.file == file:
            return found
    names = ", ".join(sorted(found.origin.file for found in whole)) or "none"
    raise NotFound(
        f"The repository {repository.name} has no GGUF file {file} whose hash the hub tells. "
        f"It has: {names}."
    )


def _as_name(words: str) -> str:
    plain = re.sub(r"[^a-z0-9._+]+", "-", words.lower()).strip("-._+")
    return plain[:LONGEST_NAME] or "model"


def _is_free(target: Path, origin: HubFile) -> bool:
    """Whether nothing has the name, or an earlier version of the same file does."""
    model = _model_or_none(target)
    if model is None:
        return True
    return model.record is not None and model.record.source.startswith(f"hf:{origin}@")


def _is_here(target: Path, remote: RemoteFile) -> bool:
    """Whether the bytes are those that the hub has now; also for a file put there by hand."""
    if not target.is_file() or target.stat().st_size != remote.size:
        return False
    with target.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == remote.sha256


def _model_or_none(target: Path) -> ModelFile | None:
    return find_model(str(target), target.parent) if target.is_file() else None


def _record(remote: RemoteFile) -> ModelRecord:
    offered = offer_of(remote.origin)
    return ModelRecord(
        source=remote.source,
        sha256=remote.sha256,
        vouched_by="hub",
        size=remote.size,
        licence=offered.licence if offered is not None else remote.licence,
        installed_at=int(time.time()),
    )


def _force_to_disk(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
