"""Files of the Hugging Face hub: what it says of one, and bringing it here whole.

Decides that a file counts only if its bytes have the SHA-256 that the hub tells for it, and the
sentence for each way in which the hub or the network refuses. What is *not* here: which file is
wanted (`pulling`), the name it gets here, whether it can be loaded.

Nothing here runs unless the owner asks for a model. The address is `HF_ENDPOINT`, a token for
repositories that need one `HF_TOKEN`; huggingface_hub's telemetry is off.

Invariants:

- a hash that the hub does not tell is not guessed: such a file is refused;
- what came of a file is kept under the hash that it must have, so that only the same content is
  ever continued, and deleted once its hash proves wrong;
- two programs never write the same part.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tactful.errors import Busy, IoFailed, ModelFailed, NoPermission, NotFound, TactfulError
from tactfuld.models.catalogue import HubFile

ENDPOINT: Final = "https://huggingface.co"
PARTS: Final = ".parts"
LOOK_UP_SECONDS: Final = 60.0
CHUNK_BYTES: Final = 1 << 20
SPARE_BYTES: Final = 64 << 20

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file as the hub describes it; `commit` is the version of its repository."""

    origin: HubFile
    commit: str
    sha256: str
    size: int
    licence: str | None

    @property
    def source(self) -> str:
        """How a record names it."""
        return f"hf:{self.origin}@{self.commit}"


@dataclass(frozen=True, slots=True)
class Repository:
    """The GGUF files of a repository."""

    name: str
    files: tuple[RemoteFile, ...]


def look_up(repository: str) -> Repository:
    """What the hub says of a repository.

    Raises:
        NotFound: there is no such repository, or it is private.
        NoPermission: its terms have to be accepted first.
        ModelFailed: the hub refused or could not be reached.
    """
    with _explained(repository):
        found = (
            _library()
            .HfApi(endpoint=_endpoint())
            .model_info(repository, files_metadata=True, timeout=LOOK_UP_SECONDS)
        )
        files = tuple(_described(repository, found))
    return Repository(repository, files)


def fetch(remote: RemoteFile, folder: Path, progress: Progress) -> Path:
    """Brings a file into `folder/.parts` and returns it there, whole and with the right hash.

    Goes on where an earlier fetch of the same content ended. `progress` is called with bytes.

    Raises:
        NoPermission: its terms have to be accepted first, or the folder may not be written.
        ModelFailed: the hub refused, or what it sent has another hash; then it is deleted.
        IoFailed: the disk is full.
        Busy: another program fetches the same file.
    """
    parts = folder / PARTS
    part = parts / remote.sha256
    parts.mkdir(mode=0o755, parents=True, exist_ok=True)
    with _Part(part, remote.size, progress) as file:
        done = file.seek(0, os.SEEK_END)
        _refuse_without_space(parts, remote.size - done)
        progress(done, remote.size)
        with _explained(remote.origin.repository):
            _download(remote, file, done)
        file.flush()
        os.fsync(file.fileno())
    _refuse_unless_whole(part, remote, progress)
    return part


class _Part(io.BufferedWriter):
    """The part of a file that came so far: locked while it is open, and telling how it grows."""

    def __init__(self, path: Path, size: int, progress: Progress) -> None:
        super().__init__(io.FileIO(path, "a"))
        self._size = size
        self._progress = progress
        try:
            fcntl.flock(self.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise Busy(
                "Another tactful process fetches this model already. Wait until it has it."
            ) from error
        if self.seek(0, os.SEEK_END) > size:
            self.truncate(0)

    def write(self, data: Any) -> int:
        count = super().write(data)
        self._progress(min(self.tell(), self._size), self._size)
        return count


def _library() -> Any:
    """huggingface_hub, told to be quiet before it reads its environment."""
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    import huggingface_hub.file_download

    return huggingface_hub


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", ENDPOINT).rstrip("/")


def _described(repository: str, found: Any) -> Iterator[RemoteFile]:
    """The GGUF files of the hub's answer for which it tells a hash."""
    card = getattr(found, "card_data", None)
    licence = getattr(card, "license_name", None) or getattr(card, "license", None)
    for sibling in found.siblings or ():
        if not sibling.rfilename.endswith(".gguf") or sibling.lfs is None:
            continue
        yield RemoteFile(
            HubFile(repository, sibling.rfilename),
            str(found.sha),
            sibling.lfs.sha256,
            sibling.lfs.size,
            licence if isinstance(licence, str) else None,
        )


def _download(remote: RemoteFile, file: _Part, done: int) -> None:
    library = _library()
    origin = remote.origin
    url = library.hf_hub_url(
        origin.repository, origin.file, revision=remote.commit, endpoint=_endpoint()
    )
    headers = library.utils.build_hf_headers(library_name="tactful")
    # It goes on by itself a few times when the connection breaks.
    library.file_download.http_get(
        url, file, resume_size=done, headers=headers, expected_size=remote.size
    )


def _refuse_without_space(folder: Path, missing: int) -> None:
    needed = missing + SPARE_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise IoFailed(
            f"Fetching the model needs {needed >> 20} MiB in {folder}, and {free >> 20} MiB are "
            "free. Make room and run the command again."
        )


def _refuse_unless_whole(part: Path, remote: RemoteFile, progress: Progress) -> None:
    digest = hashlib.sha256()
    with part.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    if digest.hexdigest() == remote.sha256:
        progress(remote.size, remote.size)
        return
    part.unlink()
    raise ModelFailed(
        f"What came as {remote.origin} does not have the SHA-256 that the hub tells for it, so it "
        "was deleted. Run the command again; if it stays, something between you and the hub "
        "changes files."
    )


@contextmanager
def _explained(repository: str) -> Iterator[None]:
    """Says in our words what the library raises."""
    _library()
    from huggingface_hub import errors

    try:
        yield
    except TactfulError:
        raise
    except errors.GatedRepoError as error:
        raise NoPermission(
            f"The repository {repository} asks people to accept its terms first: open "
            f"{_endpoint()}/{repository} in a browser, accept them, make a token there, and run "
            "the command again with HF_TOKEN set to it."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise NotFound(
            f"The hub has no repository {repository}, or it is private and HF_TOKEN does not "
            "name somebody who may read it."
        ) from error
    except (errors.EntryNotFoundError, errors.RevisionNotFoundError) as error:
        raise NotFound(
            f"The file is not in the repository {repository} any more. Run the command again."
        ) from error
    except errors.HFValidationError as error:
        raise NotFound(
            f"{repository} is not the name of a repository; one looks like OWNER/NAME."
        ) from error
    except errors.OfflineModeIsEnabled as error:
        raise ModelFailed(
            "HF_HUB_OFFLINE is set, so nothing may be fetched. Unset it and run the command again."
        ) from error
    except errors.HfHubHTTPError as error:
        raise _by_status(repository, error.response.status_code) from error
    except Exception as error:
        raise _by_kind(error) from error


def _by_status(repository: str, status: int) -> TactfulError:
    if status in (401, 403):
        return NoPermission(
            f"The hub does not let you read {repository} (status {status}). Set HF_TOKEN to a "
            "token that may, and run the command again."
        )
    return ModelFailed(
        f"The hub answered with status {status}. Try again later; what came so far is kept."
    )


def _by_kind(error: Exception) -> Exception:
    """The disk's errors stay what they are; the network's have no base class that is public."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return IoFailed(
            "The disk is full. Make room and run the command again; what came so far is kept."
        )
    if isinstance(error, OSError) and isinstance(error.filename, str):
        return error
    return ModelFailed(
        f"The hub at {_endpoint()} could not be reached or broke off ({type(error).__name__}). "
        "Check the network and run the command again; what came so far is kept."
    )
