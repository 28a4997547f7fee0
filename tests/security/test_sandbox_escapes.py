"""A hostile app inside the real sandbox gets hold of nothing, and without one of everything.

The second half is what makes the first half mean something: each attack is shown to work where
there are no walls (`sandbox: off`), in the same run, on the same targets.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.app_hosting import hosting, usable_sandbox
from tests.fakes.app_site import install_app

from tactful.profile import Profile
from tactful.wire import Event, EventKind
from tactful_core.values import AppId
from tactfuld.apps import sandbox
from tactfuld.apps.folders import FolderGrant
from tactfuld.apps.hosted import Conditions
from tactfuld.apps.installed import find_installed
from tactfuld.apps.limits import UNCONFINED_PROCESSES, Limits
from tactfuld.apps.sandbox import Confinement, Unconfined, interpreter_folders

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's bubblewrap")

INTRUDER = AppId("intruder")
MARKER = "MARKER-of-the-owner"
GREETING = "welcome"

_GREETER = f"""
import socket, sys, threading
def greet(listener):
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"{GREETING}")
listeners = [socket.create_server(("127.0.0.1", 0))]
for address in (sys.argv[1], "\\0" + sys.argv[2]):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    listeners.append(listener)
for listener in listeners[1:]:
    threading.Thread(target=greet, args=(listener,), daemon=True).start()
print(listeners[0].getsockname()[1], flush=True)
greet(listeners[0])
"""


@dataclass(frozen=True)
class Raid:
    """One run of the intruder: what it reports, and where it was."""

    loot: dict[str, dict[str, Any]]
    profile: Profile
    module: Path

    def refused(self, attack: str) -> bool:
        return "refused" in self.loot[attack]

    def got(self, attack: str) -> Any:
        assert "got" in self.loot[attack], f"{attack} was refused: {self.loot[attack]}"
        return self.loot[attack]["got"]


def _raid(folder: Path, confinement: Confinement) -> Raid:
    """Lets the intruder run as an app of a profile in `folder`, with everything to steal there."""
    site, profile = folder / "site", Profile.at(folder / "p")
    victim = profile.state / "apps" / "victim"
    for made in (site, profile.data, profile.runtime, victim):
        made.mkdir(parents=True)
    (profile.data / "memory.db").write_text(MARKER, encoding="utf-8")
    (victim / "diary").write_text(MARKER, encoding="utf-8")
    source = Path(__file__).with_name("intruder.py").read_text(encoding="utf-8")
    module = install_app(site, INTRUDER, source)
    shared, drafts, secret = folder / "shared", folder / "drafts", folder / "diary"
    for made in (shared, drafts):
        made.mkdir()
    secret.write_text(MARKER, encoding="utf-8")
    (shared / "recipe").write_text("lentils", encoding="utf-8")
    (shared / "planted-link").symlink_to(secret)
    abstract = f"tactful-test-{os.getpid()}-{folder.name}"
    command = [sys.executable, "-I", "-c", _GREETER, str(profile.owner_socket), abstract]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as greeter,
        pytest.MonkeyPatch.context() as patch,
    ):
        try:
            assert greeter.stdout is not None
            targets = {
                "data": str(profile.data),
                "state": str(profile.state),
                "home": str(Path.home()),
                "owner_socket": str(profile.owner_socket),
                "abstract": abstract,
                "port": greeter.stdout.readline().strip(),
                "pid": str(greeter.pid),
                "shared": str(shared),
                "drafts": str(drafts),
                "home_secret": str(secret),
                "walls": "none" if isinstance(confinement, Unconfined) else "bubblewrap",
            }
            patch.syspath_prepend(str(site))
            patch.setenv("TACTFUL_PASSPHRASE", MARKER)
            asyncio.run(_attack(folder / "p", confinement, targets))
        finally:
            greeter.kill()
    loot = profile.state / "apps" / INTRUDER / "loot.json"
    return Raid(json.loads(loot.read_text(encoding="utf-8")), profile, module)


async def _attack(profile_dir: Path, confinement: Confinement, targets: dict[str, str]) -> None:
    async with hosting(profile_dir, confinement) as host:
        granted = (
            FolderGrant(targets["shared"], writable=False),
            FolderGrant(targets["drafts"], writable=True),
        )
        await host.start(INTRUDER, Conditions(granted))
        event = Event(kind=EventKind.MESSAGE, text=json.dumps(targets))
        await host.deliver(INTRUDER, event)


WALLS = ("bubblewrap", "bubblewrap before 0.8")


class Raids:
    """One raid for each kind of walls, made when it is first wanted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[Confinement, Raid] = {}

    def under(self, walls: str) -> Raid:
        confinement: Confinement = Unconfined()
        if walls != "none":
            hardened = usable_sandbox().hardened and walls != "bubblewrap before 0.8"
            confinement = replace(usable_sandbox(), hardened=hardened)
        if confinement not in self._made:
            folder = self._folder / str(len(self._made))
            self._made[confinement] = _raid(folder, confinement)
        return self._made[confinement]

    def without(self, wall: str) -> Raid:
        """In the sandbox, while something of it is left out by the caller."""
        return _raid(self._folder / f"without-{wall}", usable_sandbox())


@pytest.fixture(scope="module")
def raids() -> Iterator[Raids]:
    folder = Path(tempfile.mkdtemp(prefix="tf-", dir="/tmp"))
    try:
        yield Raids(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=WALLS)
def inside(raids: Raids, request: pytest.FixtureRequest) -> Raid:
    """The intruder in the real sandbox, with and without the options that only newer ones have."""
    return raids.under(request.param)


@pytest.fixture
def outside(raids: Raids) -> Raid:
    """The same intruder under `sandbox: off`."""
    return raids.under("none")


@pytest.fixture(params=[*WALLS, "none"])
def anywhere(raids: Raids, request: pytest.FixtureRequest) -> Raid:
    """The intruder with and without a sandbox, for what holds either way."""
    return raids.under(request.param)


REFUSED_INSIDE = (
    "read_memory_database",
    "read_memory_database_through_symlink",
    "hard_link_memory_database",
    "read_other_apps_folder",
    "read_accounts",
    "list_runtime_folders",
    "connect_owner_socket",
    "connect_abstract_socket",
    "connect_network",
    "read_daemons_environment",
    "open_daemons_memory",
    "signal_daemon",
    "see_other_processes",
    "write_into_own_code",
    "write_into_tactful",
    "open_kernel_switch",
    "remount_writable",
    "see_the_machines_load",
    "ask_the_kernel_for_its_load",
    "read_the_sessions_kernel_keys",
    "trace_another_process",
    "make_namespaces",
    "write_into_folder_granted_for_reading",
    "follow_planted_symlink_out_of_granted_folder",
    "follow_own_symlink_out_of_granted_folder",
    "hard_link_into_granted_folder",
    "climb_out_of_granted_folder",
    "put_another_folder_in_the_place_of_a_granted_one",
)
NEEDS_MORE_THAN_AN_OWNER = {
    "open_kernel_switch",
    "remount_writable",
    "write_into_tactful",
    "make_namespaces",
    "read_the_sessions_kernel_keys",
}
"""What the owner may be unable to do even without a sandbox; `tactful` may be the system's, and not
every machine lets its users make namespaces or has key rings."""


@pytest.mark.parametrize("attack", REFUSED_INSIDE)
def test_sandbox_refuses(inside: Raid, attack: str) -> None:
    assert inside.refused(attack), inside.loot[attack]


@pytest.mark.parametrize("attack", sorted(set(REFUSED_INSIDE) - NEEDS_MORE_THAN_AN_OWNER))
def test_the_same_attack_works_where_there_is_no_sandbox(outside: Raid, attack: str) -> None:
    assert outside.got(attack)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could do this without a sandbox")
def test_kernel_switch_could_be_opened_by_root_without_a_sandbox(outside: Raid) -> None:
    assert outside.got("open_kernel_switch") == "opened for writing"


def test_planted_marker_is_nowhere_in_the_loot(inside: Raid, outside: Raid) -> None:
    assert MARKER not in json.dumps(inside.loot)
    assert MARKER in json.dumps(outside.loot)


@pytest.mark.skipif(os.geteuid() != 0, reason="not every machine lets its users do so")
def test_namespaces_could_be_made_without_a_sandbox(outside: Raid) -> None:
    assert outside.got("make_namespaces") == "made"


def test_granted_folders_can_be_used_as_they_were_granted(anywhere: Raid) -> None:
    assert anywhere.got("read_granted_folder") == "lentils"
    assert anywhere.got("write_granted_folder") == "written inside"


def test_home_folder_shows_only_the_way_to_the_interpreter_and_the_apps_code(
    inside: Raid, outside: Raid
) -> None:
    home = Path.home()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(inside.module.parent))
        bound = [*interpreter_folders(), *find_installed(INTRUDER, inside.profile.state).folders]
    ways = {f.relative_to(home).parts[0] for f in bound if f.is_relative_to(home)}
    shown = set() if inside.refused("list_home") else set(inside.got("list_home"))
    assert shown <= ways
    assert outside.got("list_home") == sorted(path.name for path in home.iterdir())


def test_writing_into_the_profile_has_no_effect_outside(inside: Raid, outside: Raid) -> None:
    assert not (inside.profile.state / "planted").exists()
    assert (outside.profile.state / "planted").exists()


def test_other_apps_are_not_even_visible(inside: Raid) -> None:
    assert "No such file" in inside.loot["read_other_apps_folder"]["refused"]


def test_child_inherits_nothing_but_its_log_and_its_socket(anywhere: Raid) -> None:
    log = (anywhere.profile.state / "logs" / f"{INTRUDER}.log").stat()
    found = {number: (inode, target) for number, inode, target in anywhere.got("descriptors")}
    assert found[0][1] == "/dev/null"
    assert found[1][0] == found[2][0] == log.st_ino
    others = [target for number, (_, target) in found.items() if number > 2]
    assert len(others) == 1
    assert others[0].startswith("socket:")


def test_environment_is_made_from_nothing(anywhere: Raid) -> None:
    found = anywhere.got("environment")
    allowed = {
        "HOME", "LANG", "PATH", "PWD", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONUNBUFFERED",
    }  # fmt: skip
    assert {"HOME", "LANG", "PATH"} <= set(found) <= allowed
    assert found["HOME"] == str(anywhere.profile.state / "apps" / INTRUDER)


def test_first_process_of_the_sandbox_has_no_other_environment(inside: Raid) -> None:
    assert MARKER not in json.dumps(inside.loot["first_process_environment"])


WALLS_LEFT_OUT = {
    "masks": ("see_the_machines_load",),
    "filter": (
        "ask_the_kernel_for_its_load",
        "read_the_sessions_kernel_keys",
        "trace_another_process",
    ),
}


@pytest.mark.parametrize("wall", WALLS_LEFT_OUT)
def test_attacks_get_through_the_sandbox_if_one_of_its_walls_is_left_out(
    raids: Raids, monkeypatch: pytest.MonkeyPatch, wall: str
) -> None:
    """Negative control: it is this wall, and no other, that refuses these."""
    monkeypatch.setattr(
        *{
            "masks": (sandbox, "_masked", list),
            "filter": (sandbox, "filter_program", lambda: None),
        }[wall]
    )
    raid = raids.without(wall)
    for attack in WALLS_LEFT_OUT[wall]:
        if outside_refuses(raids, attack):
            continue
        assert raid.got(attack)


def outside_refuses(raids: Raids, attack: str) -> bool:
    """Whether the machine itself refuses it, so that nothing is shown by trying."""
    return raids.under("none").refused(attack)


def test_resource_limits_are_in_force(anywhere: Raid) -> None:
    found, expected = anywhere.got("limits"), Limits()
    assert 0 < found["AS"] <= expected.memory_bytes
    assert 0 < found["FSIZE"] <= expected.file_bytes
    assert 0 < found["NPROC"] <= UNCONFINED_PROCESSES
    assert found["CORE"] == 0


def test_sandboxed_app_may_have_few_processes(inside: Raid) -> None:
    assert inside.got("limits")["NPROC"] <= Limits().processes


def test_private_folders_of_the_app_can_be_written(anywhere: Raid) -> None:
    """The loot itself was: walls that let nothing through would pass every test above."""
    assert anywhere.loot.keys() >= set(REFUSED_INSIDE)
