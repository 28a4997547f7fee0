"""What the hub sends is here only whole and with the hash that it told, whatever happens between.

These tests talk to a server on this machine.
"""

import errno
import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import file_download
from tests.tactfuld.models.local_hub import COMMIT, LocalHub, serving

from tactful.errors import Busy, IoFailed, ModelFailed, NoPermission, NotFound
from tactfuld.models import hub as module
from tactfuld.models.catalogue import HubFile
from tactfuld.models.hub import PARTS, RemoteFile, fetch, look_up

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

CONTENT = bytes(range(256)) * 400
SHA256 = hashlib.sha256(CONTENT).hexdigest()
REPOSITORY = "owner/tiny-GGUF"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LocalHub]:
    with serving(LocalHub(files={"tiny.gguf": CONTENT})) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.endpoint)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setattr(module, "SPARE_BYTES", 0)
        monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _seconds: None)
        yield served


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


def remote() -> RemoteFile:
    (found,) = look_up(REPOSITORY).files
    return found


def quiet(_done: int, _total: int) -> None:
    return None


def parts(folder: Path) -> list[Path]:
    return list((folder / PARTS).iterdir())


def put_part(folder: Path, content: bytes) -> Path:
    (folder / PARTS).mkdir(parents=True)
    part = folder / PARTS / SHA256
    part.write_bytes(content)
    return part


@pytest.mark.usefixtures("hub")
def test_describes_a_file_with_its_hash_and_the_version_it_is_of() -> None:
    assert remote() == RemoteFile(
        HubFile(REPOSITORY, "tiny.gguf"), COMMIT, SHA256, len(CONTENT), "mit"
    )
    assert remote().source == f"hf:{REPOSITORY}/tiny.gguf@{COMMIT}"


def test_a_file_without_a_hash_is_not_offered(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = hub.described()
    told["siblings"] = [{"rfilename": "small.gguf", "size": 3}]
    monkeypatch.setattr(hub, "described", lambda: told)
    assert look_up(REPOSITORY).files == ()


def test_brings_a_file_whole_and_tells_how_far_it_is(hub: LocalHub, folder: Path) -> None:
    told: list[tuple[int, int]] = []
    path = fetch(remote(), folder, lambda done, total: told.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert told[0] == (0, len(CONTENT))
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert told == sorted(told)
    assert hub.fetches() == [None]
    assert parts(folder) == [path]


def test_asks_for_the_file_and_nothing_else(hub: LocalHub, folder: Path) -> None:
    fetch(remote(), folder, quiet)
    assert [(method, path.partition("?")[0]) for method, path, _ in hub.seen] == [
        ("GET", f"/api/models/{REPOSITORY}"),
        ("GET", f"/{REPOSITORY}/resolve/{COMMIT}/tiny.gguf"),
    ]


def test_telemetry_is_off_before_the_library_reads_its_settings() -> None:
    program = (
        "from tactfuld.models.hub import _library; _library()\n"
        "from huggingface_hub import constants\n"
        "print(constants.HF_HUB_DISABLE_TELEMETRY)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "True\n"


def test_goes_on_by_itself_when_the_connection_breaks(hub: LocalHub, folder: Path) -> None:
    hub.cut_after, hub.cuts = 70_000, 1
    path = fetch(remote(), folder, quiet)
    assert path.read_bytes() == CONTENT
    assert len(hub.fetches()) == 2


def test_goes_on_where_an_earlier_fetch_ended(hub: LocalHub, folder: Path) -> None:
    put_part(folder, CONTENT[:60_000])
    told: list[int] = []
    path = fetch(remote(), folder, lambda done, _total: told.append(done))
    assert path.read_bytes() == CONTENT
    assert hub.fetches() == ["bytes=60000-"]
    assert told[0] == 60_000


def test_asks_for_nothing_where_all_of_it_came_before(hub: LocalHub, folder: Path) -> None:
    put_part(folder, CONTENT)
    assert fetch(remote(), folder, quiet).read_bytes() == CONTENT
    assert hub.fetches() == []


def test_begins_anew_where_more_lies_there_than_belongs_to_it(hub: LocalHub, folder: Path) -> None:
    put_part(folder, CONTENT + b"more")
    assert fetch(remote(), folder, quiet).read_bytes() == CONTENT
    assert hub.fetches() == [None]


def test_what_came_is_kept_when_the_network_stays_away(
    hub: LocalHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = remote()
    with monkeypatch.context() as patched:
        patched.setattr(file_download, "http_get", broken_after(30_000))
        with pytest.raises(ModelFailed, match="what came so far is kept"):
            fetch(wanted, folder, quiet)
    assert [part.stat().st_size for part in parts(folder)] == [30_000]
    assert fetch(wanted, folder, quiet).read_bytes() == CONTENT
    assert hub.fetches() == ["bytes=30000-"]


def broken_after(count: int) -> object:
    def http_get(_url: str, file: object, **_: object) -> None:
        file.write(CONTENT[:count])  # type: ignore[attr-defined]
        raise ConnectionResetError("The peer is gone.")

    return http_get


@pytest.mark.parametrize("begun", [0, 50_000])
def test_other_bytes_than_the_hash_promises_are_refused_and_deleted(
    hub: LocalHub, folder: Path, begun: int
) -> None:
    wanted = remote()
    if begun:
        put_part(folder, b"\xff" * begun)
    else:
        hub.files["tiny.gguf"] = CONTENT[:-1] + b"!"
    with pytest.raises(ModelFailed, match="does not have the SHA-256"):
        fetch(wanted, folder, quiet)
    assert parts(folder) == []


def test_mutant_without_the_comparison_is_caught(
    hub: LocalHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = remote()
    hub.files["tiny.gguf"] = CONTENT[:-1] + b"!"
    monkeypatch.setattr(module, "_refuse_unless_whole", lambda *_: None)
    assert fetch(wanted, folder, quiet).read_bytes() != CONTENT


def test_a_repository_that_is_not_there_is_said_to_be(hub: LocalHub) -> None:
    hub.missing = True
    with pytest.raises(NotFound, match="no repository owner/tiny-GGUF, or it is private"):
        look_up(REPOSITORY)


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("name", ["o/" + "x" * 200, "o/..", "o/a b"])
def test_what_cannot_be_a_repository_is_said_not_to_be_one(name: str) -> None:
    with pytest.raises(NotFound):
        look_up(name)


def test_a_repository_with_terms_says_how_to_accept_them(hub: LocalHub, folder: Path) -> None:
    hub.token = "hf_good"
    with pytest.raises(NoPermission, match="accept its terms first") as told:
        fetch(remote(), folder, quiet)
    assert f"{hub.endpoint}/{REPOSITORY}" in str(told.value)
    assert "HF_TOKEN" in str(told.value)


def test_a_token_opens_it_and_is_in_no_message(
    hub: LocalHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.token = "hf_good"
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(NoPermission) as told:
        fetch(remote(), folder, quiet)
    assert "hf_" not in str(told.value)
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    assert fetch(remote(), folder, quiet).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (401, NoPermission, "status 401"),
        (403, NoPermission, "status 403"),
        (404, ModelFailed, "status 404"),
        (500, ModelFailed, "status 500"),
    ],
)
def test_a_status_is_a_sentence(
    hub: LocalHub, folder: Path, status: int, kind: type[Exception], said: str
) -> None:
    wanted = remote()
    hub.status = status
    with pytest.raises(kind, match=said):
        fetch(wanted, folder, quiet)


def test_nobody_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch, hub: LocalHub) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(ModelFailed, match="could not be reached"):
        look_up(REPOSITORY)
    assert hub.seen == []


@pytest.mark.usefixtures("hub")
class TestDisk:
    def test_too_little_room_is_found_out_before_anything_comes(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, hub: LocalHub
    ) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1000))
        with pytest.raises(IoFailed, match="Make room"):
            fetch(remote(), folder, quiet)
        assert hub.fetches() == []

    def test_a_disk_that_fills_up_is_a_sentence(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        wanted = remote()
        monkeypatch.setattr(file_download, "http_get", full)
        with pytest.raises(IoFailed, match="disk is full"):
            fetch(wanted, folder, quiet)

    def test_a_folder_that_cannot_be_made_is_told_by_the_system(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(NotADirectoryError):
            fetch(remote(), tmp_path / "file" / "models", quiet)

    def test_two_at_once_do_not_write_the_same_part(self, folder: Path) -> None:
        part = put_part(folder, b"")
        with part.open("a") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            with pytest.raises(Busy, match="already"):
                fetch(remote(), folder, quiet)
        assert part.read_bytes() == b""


def test_ctrl_c_keeps_what_came(hub: LocalHub, folder: Path) -> None:
    def interrupted(done: int, _total: int) -> None:
        if done > 60_000:
            raise KeyboardInterrupt

    put_part(folder, CONTENT[:50_000])
    with pytest.raises(KeyboardInterrupt):
        fetch(remote(), folder, interrupted)
    (part,) = parts(folder)
    came = part.read_bytes()
    assert came == CONTENT[: len(came)]
    assert len(came) >= 50_000
    assert fetch(remote(), folder, quiet).read_bytes() == CONTENT
    assert hub.fetches()[0] == "bytes=50000-"
