"""An app gets an environment of its own, and none of its code ever runs outside the sandbox."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.fakes.app_hosting import ScriptedDaemon, hosting, usable_sandbox
from tests.fakes.app_project import write_project, write_wheel

from tactful.errors import AlreadyExists, Busy, NotFound, Unusable
from tactful.profile import Profile
from tactful.wire import Event, EventKind
from tactful_core.values import AppId
from tactfuld.apps import installing, sdk
from tactfuld.apps.describing import Look
from tactfuld.apps.environments import OwnApp, alone, drop, own_apps, sweep
from tactfuld.apps.installed import find_installed, installed_names, packages_of
from tactfuld.apps.installing import LOG, contents, install
from tactfuld.apps.sandbox import NoSandbox, Unconfined

SHOP = AppId("shop")

SOURCE = """
import json
from pathlib import Path
import structlog
from tactful import EventKind, Manifest, Setting, hookimpl

@hookimpl
def tactful_manifest():
    return Manifest(
        name="shop", title="Shop", version="3", slots=("food",), fresh={"food": 2},
        events=(EventKind.MESSAGE,),
    )

@hookimpl
def tactful_settings():
    return [Setting(key="people", title="How many eat", default=2)]

@hookimpl
async def tactful_on_event(event, agent):
    answer = await agent.ask(event.text)
    kept = {"answer": answer.text, "structlog": structlog.__version__}
    Path("kept.json").write_text(json.dumps(kept))
"""

PLANT = """
import os, resource
for path in ({outside!r}, os.path.expanduser("~/planted")):
    try:
        with open(path, "a") as file:
            file.write(str(resource.getrlimit(resource.RLIMIT_CORE)))
    except OSError:
        pass
"""
"""Tries to leave a mark outside the sandbox, and leaves one inside with the limits it is under."""


@dataclass(frozen=True)
class Shelf:
    """A profile, and what there is to install."""

    folder: Path
    look: Look
    outside: Path

    @property
    def state(self) -> Path:
        return self.look.profile.state

    def install(self, source: Path | str, expected: AppId | None = None) -> OwnApp:
        with alone(self.state):
            return install(self.look, str(source), expected, lambda *_: None)

    def folders(self) -> set[str]:
        """What lies beside the record."""
        return {path.name for path in (self.state / "venvs").iterdir()} - {"installed.json"}


@pytest.fixture(scope="module")
def shelf() -> Iterator[Shelf]:
    """Here `structlog` is another one than the daemon's, and there is no package index."""
    folder = Path(tempfile.mkdtemp(prefix="tf-", dir="/tmp"))
    wheels = folder / "wheels"
    wheels.mkdir()
    write_wheel(
        wheels,
        "structlog",
        "",
        version="0.0.1",
        also={"structlog.py": "__version__ = '0.0.1'\n"},
        entry_points="",
    ).rename(wheels / "structlog-0.0.1-py3-none-any.whl")
    _renamed(wheels / "structlog-0.0.1-py3-none-any.whl")
    profile = Profile.at(folder / "p")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(wheels))
        try:
            yield Shelf(folder, Look(profile, Path.home(), usable_sandbox()), folder / "marked")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _renamed(wheel: Path) -> None:
    """Makes the distribution `structlog_app` of a wheel `structlog`."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            if name != "structlog_app.py":
                archive.writestr(
                    name.replace("structlog_app-", "structlog-"),
                    content.replace("structlog_app", "structlog"),
                )


@pytest.fixture(scope="module")
def shop(shelf: Shelf) -> OwnApp:
    """Built from a folder whose backend, interpreter hook and module all try to leave a mark."""
    plant = PLANT.format(outside=str(shelf.outside))
    project = write_project(
        shelf.folder / "project",
        "shop",
        plant + SOURCE,
        before=plant,
        needs=("structlog==0.0.1", "tactful"),
        also={"plant.pth": f"import os; exec({plant!r})\n"},
    )
    return shelf.install(project)


def test_app_is_known_with_what_it_says_of_itself(shelf: Shelf, shop: OwnApp) -> None:
    assert own_apps(shelf.state) == {SHOP: shop}
    assert (shop.package, shop.version, shop.manifest.version) == ("shop_app", "1.0", "3")
    assert shop.manifest.fresh == {"food": 2}
    assert [setting.key for setting in shop.settings] == ["people"]
    assert SHOP in installed_names(shelf.state)


def test_none_of_its_code_left_a_mark_outside_the_sandbox(shelf: Shelf, shop: OwnApp) -> None:
    assert not shelf.outside.exists()


def test_its_dependencies_are_not_the_daemons(shelf: Shelf, shop: OwnApp) -> None:
    found = contents(shop.folder(shelf.state))
    assert found["structlog"] == "0.0.1"
    assert version("structlog") != "0.0.1"
    assert found["tactful"] == version("tactful")
    assert "llama_cpp_python" not in found
    assert "cryptography" not in found


async def test_it_runs_in_the_sandbox_from_its_own_environment(shelf: Shelf, shop: OwnApp) -> None:
    """And what runs before its own code, in the interpreter's start, is under the limits."""
    daemon = ScriptedDaemon(answer="lentils")
    sandbox = await asyncio.to_thread(usable_sandbox)
    async with hosting(shelf.folder / "p", sandbox, daemon=daemon) as host:
        await host.start(SHOP)
        await host.deliver(SHOP, Event(kind=EventKind.MESSAGE, text="dinner?"))
    folder = shelf.state / "apps" / "shop"
    kept = json.loads((folder / "kept.json").read_text(encoding="utf-8"))
    assert kept == {"answer": "lentils", "structlog": "0.0.1"}
    assert not shelf.outside.exists()
    planted = (folder / "planted").read_text(encoding="utf-8")
    assert planted
    assert planted.replace("(0, 0)", "") == ""


def test_it_reads_nothing_of_the_daemons_environment(shelf: Shelf, shop: OwnApp) -> None:
    app = find_installed(SHOP, shelf.state)
    assert Path(sys.prefix) not in app.read_only
    assert app.folders == ()
    assert app.interpreter.is_relative_to(shop.folder(shelf.state))


def test_its_library_is_made_the_daemons_again(shelf: Shelf, shop: OwnApp) -> None:
    """An older daemon, or one of the app's packages, may have put another one there."""
    packages = packages_of(shop.folder(shelf.state))
    wire = packages / "tactful" / "wire.py"
    before = wire.read_bytes()
    wire.write_bytes(b"raise SystemExit('not the library')")
    (packages / "tactful" / "added.py").write_bytes(b"")
    sdk.refresh(packages)
    assert wire.read_bytes() == before
    assert not (packages / "tactful" / "added.py").exists()
    assert not (packages / "tactful" / "cli").exists()


def test_name_that_is_taken_is_refused_and_nothing_is_left(shelf: Shelf, shop: OwnApp) -> None:
    wheel = write_wheel(shelf.folder, "shop", SOURCE.replace("import structlog", ""), version="2.0")
    with pytest.raises(AlreadyExists, match="apps update shop"):
        shelf.install(wheel)
    assert shelf.folders() == {shop.environment}
    assert own_apps(shelf.state) == {SHOP: shop}


def test_app_that_cannot_be_used_is_refused_with_its_reason_and_nothing_is_left(
    shelf: Shelf, shop: OwnApp
) -> None:
    source = SOURCE.replace("import structlog", "").replace('title="Shop"', 'title=""')
    wheel = write_wheel(shelf.folder, "bad", source.replace('"shop"', '"bad"'))
    with pytest.raises(Unusable, match=r"bad_app\.py:\d+: The app bad makes an unsound Manifest"):
        shelf.install(wheel)
    assert shelf.folders() == {shop.environment}


def test_package_without_an_app_or_that_needs_what_is_nowhere_is_refused(shelf: Shelf) -> None:
    before = own_apps(shelf.state)
    wheel = write_wheel(shelf.folder, "none", "", entry_points="")
    with pytest.raises(NotFound, match="it has: none"):
        shelf.install(wheel)
    wheel = write_wheel(shelf.folder, "needy", SOURCE, needs=("no-such-package-at-all==9",))
    with pytest.raises(Unusable, match=r"no-such-package-at-all==9.*The whole log is"):
        shelf.install(wheel)
    assert "no-such-package-at-all" in (shelf.state / "logs" / LOG).read_text(encoding="utf-8")
    assert own_apps(shelf.state) == before


@pytest.mark.parametrize(
    "source", ["/nonexistent/app", "--index-url=x", "git+https://example.org/x", "a b"]
)
def test_what_is_no_folder_wheel_or_package_is_refused_before_pip_sees_it(
    shelf: Shelf, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tactfuld.apps.installing._made", lambda *_: shelf.folder / "packages")
    monkeypatch.setattr("tactfuld.apps.installing.put_library", lambda _: None)
    monkeypatch.setattr("tactfuld.apps.installing._pip", lambda *_: pytest.fail("pip was asked"))
    with pytest.raises(NotFound):
        shelf.install(source)


def test_project_that_does_not_build_is_refused_with_what_it_said(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tactfuld.apps.installing._made", lambda *_: shelf.folder / "packages")
    monkeypatch.setattr("tactfuld.apps.installing.put_library", lambda _: None)
    project = write_project(shelf.folder / "broken", "broken", "", before="1 / 0")
    with pytest.raises(Unusable, match=r"could not be built.*ZeroDivisionError"):
        shelf.install(project)


def test_without_a_sandbox_nothing_of_an_app_is_run(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tactfuld.apps.installing._made", lambda *_: shelf.folder / "packages")
    monkeypatch.setattr("tactfuld.apps.installing.put_library", lambda _: None)
    look = Look(shelf.look.profile, Path.home(), NoSandbox("Apps do not start: no walls."))
    project = write_project(shelf.folder / "unwalled", "unwalled", SOURCE)
    with alone(shelf.state), pytest.raises(Unusable, match="no walls"):
        install(look, str(project), None, lambda *_: None)


def test_build_that_is_not_walled_in_leaves_its_mark(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: the same project, where the owner wrote `sandbox: off`."""
    monkeypatch.setattr("tactfuld.apps.installing._made", lambda *_: shelf.folder / "packages")
    monkeypatch.setattr("tactfuld.apps.installing.put_library", lambda _: None)
    monkeypatch.setattr("tactfuld.apps.installing._pip", lambda *_: None)
    mark = shelf.folder / "marked-without-walls"
    project = write_project(
        shelf.folder / "marking", "marking", SOURCE, before=PLANT.format(outside=str(mark))
    )
    look = Look(shelf.look.profile, Path.home(), Unconfined())
    with alone(shelf.state), pytest.raises(NotFound):
        install(look, str(project), None, lambda *_: None)
    assert mark.exists()


def test_pip_is_given_no_secret_of_the_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACTFUL_PASSPHRASE", "MARKER")
    monkeypatch.setenv("PYTHONPATH", "/MARKER")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example")
    show = [sys.executable, "-c", "import os; print(dict(os.environ))"]
    installing._run(show, tmp_path / "log", "It failed")
    said = (tmp_path / "log").read_text(encoding="utf-8")
    assert "MARKER" not in said
    assert "https://index.example" in said


def test_two_installations_at_once_are_refused(tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(Busy), alone(tmp_path):
        pass


def test_leftovers_are_swept_and_what_is_named_stays(tmp_path: Path, shelf: Shelf) -> None:
    with alone(tmp_path):
        kept, left = tmp_path / "venvs" / ("0" * 16), tmp_path / "venvs" / ("1" * 16)
        for folder in (kept, left):
            folder.mkdir()
        record = {
            "apps": [
                {
                    "name": "shop",
                    "package": "p",
                    "version": "1",
                    "source": "p",
                    "environment": kept.name,
                    "manifest": {"name": "shop", "title": "S", "version": "1"},
                }
            ]
        }
        (tmp_path / "venvs" / "installed.json").write_text(json.dumps(record), encoding="utf-8")
        sweep(tmp_path)
        assert (kept.exists(), left.exists()) == (True, False)
        drop(tmp_path, SHOP)
        sweep(tmp_path)
        assert not kept.exists()
        assert own_apps(tmp_path) == {}


def test_damaged_record_is_a_sentence_and_nothing_is_swept(tmp_path: Path) -> None:
    folder = tmp_path / "venvs" / ("0" * 16)
    folder.mkdir(parents=True)
    (tmp_path / "venvs" / "installed.json").write_text("{", encoding="utf-8")
    with pytest.raises(Unusable, match="damaged"), alone(tmp_path):
        pass
    assert folder.exists()
