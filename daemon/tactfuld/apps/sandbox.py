"""The walls around an app's process: bubblewrap and a minimal environment.

Decides what a child may read, write and reach. What is *not* here: which system calls it is refused
(`system_calls`), how much it may use (`limits`), which folders the owner's grants open (`folders`),
starting and ending processes (`child`), when to (`host`), and whether the owner wants a sandbox
(`tactfuld.settings`).

Invariants:

- without a usable bubblewrap nothing is confined half: either the owner wrote `sandbox: off`, or
  there is no command at all;
- a child reads the system, the interpreter and the import folders it was given; it writes its own
  state folder and a private `/tmp`; the owner's grants add to both, nothing else does; it has no
  network, no capability and no other process to see;
- a folder that contains the owner's home or one of the profile's folders is never bound, not even
  read-only: such a layout is refused by name;
- the environment is made from nothing, so the daemon's variables never reach an app;
- of `/proc` a child sees its own processes and nothing of the machine: neither its load nor the
  kernel's switches, and a daemon that runs as root lends its apps none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tactfuld.apps.folders import OpenFolder
from tactfuld.apps.system_calls import filter_program

_PROBE_SECONDS = 20
_TMP_BYTES = 64 * 1024 * 1024
_SYSTEM = Path("/usr")
_BESIDE_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = ("ld.so.cache", "alternatives", "localtime")
_PROC = frozenset({"self", "thread-self", "mounts", "net", "filesystems", "version"})
"""What of `/proc`, besides processes, tells nothing of the machine's load: three links into the
reader's own process, which file systems the kernel knows, and its version."""

_HARDENED = ("--disable-userns", "--size", str(_TMP_BYTES))
"""Options of bubblewrap 0.8: no user namespaces inside, and a size for the next tmpfs. Older ones
keep every wall above without them."""

REMEDIES = (
    "Install bubblewrap (the package is called bubblewrap, the program bwrap) and see that "
    "unprivileged user namespaces are allowed, or write `sandbox: off` in settings.yaml to run "
    "apps without walls."
)


class SandboxError(Exception):
    """An app cannot be confined; the message is for the owner."""


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A bubblewrap that was tried and works.

    Attributes:
        program: the executable.
        hardened: whether it knows the options of version 0.8.
    """

    program: Path
    hardened: bool


@dataclass(frozen=True, slots=True)
class Unconfined:
    """The owner wrote `sandbox: off`."""


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """A sandbox is required and there is none; `problem` names both remedies."""

    problem: str


Confinement = Bubblewrap | Unconfined | NoSandbox


def choose_confinement(
    setting: Literal["required", "off"], search_path: str | None = None
) -> Confinement:
    """What the setting means on this machine; blocks while bubblewrap is tried.

    Args:
        setting: `sandbox` of settings.yaml.
        search_path: where to look for bwrap; `None` for `PATH`.
    """
    if setting == "off":
        return Unconfined()
    return sandbox_usable(search_path)


def sandbox_usable(search_path: str | None = None) -> Bubblewrap | NoSandbox:
    """Starts this interpreter in the real sandbox once; blocks, so never on the event loop."""
    found = shutil.which("bwrap", path=search_path)
    if found is None:
        return NoSandbox(f"Apps do not start: bwrap is not on this machine. {REMEDIES}")
    problem = ""
    for hardened in (True, False):
        sandbox = Bubblewrap(Path(found), hardened)
        problem = _try(sandbox)
        if not problem:
            return sandbox
    return NoSandbox(f"Apps do not start: bwrap does not work here ({problem}). {REMEDIES}")


def _try(sandbox: Bubblewrap) -> str:
    """Why it does not work; empty if it does."""
    with tempfile.TemporaryDirectory(prefix="tactful-sandbox-") as state:
        environment = minimal_environment(Path(state), ())
        command = sandbox_command(
            [sys.executable, "-I", "-S", "-c", "pass"],
            sandbox=sandbox,
            read_only=interpreter_folders(),
            state=Path(state),
            environment=environment,
        )
        try:
            with filter_of_system_calls() as descriptor:
                done = subprocess.run(
                    with_filter(command, descriptor),
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=_PROBE_SECONDS,
                    check=False,
                    pass_fds=() if descriptor is None else (descriptor,),
                )
        except subprocess.TimeoutExpired:
            return f"no answer within {_PROBE_SECONDS} seconds"
        except OSError as error:
            return f"it could not be started: {error.strerror}"
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    said = "".join(c for c in (lines[-1] if lines else "") if c.isprintable())[:200]
    return said or f"it ended with status {done.returncode}"


def sandbox_command(
    argv: Sequence[str],
    *,
    sandbox: Bubblewrap,
    read_only: Sequence[Path],
    state: Path,
    environment: Mapping[str, str],
    folders: Sequence[OpenFolder] = (),
) -> list[str]:
    """`argv` behind walls; descriptors that the caller passes on stay open inside.

    Args:
        read_only: folders that may be read, besides the system's.
        folders: what the owner granted.
        state: the one folder that may be written; also the working directory.
        environment: all variables of the child. Give bwrap itself no others either: the child can
            read them in `/proc/1/environ`.
    """
    command = [
        str(sandbox.program),
        "--unshare-all",
        "--unshare-user",
        "--cap-drop",
        "ALL",
        "--die-with-parent",
        "--new-session",
        "--hostname",
        "tactful",
        "--clearenv",
    ]
    for name, value in environment.items():
        command += ["--setenv", name, value]
    command += _system()
    command += ["--proc", "/proc", *_masked(), "--dev", "/dev"]
    command += [*(_HARDENED if sandbox.hardened else ()), "--tmpfs", "/tmp"]  # noqa: S108
    for folder in _outermost(read_only):
        command += ["--ro-bind", str(folder), str(folder)]
    for each in folders:
        command += ["--bind" if each.writable else "--ro-bind", str(each.path), str(each.path)]
    command += ["--bind", str(state), str(state)]
    for mount in ("/proc", "/dev", "/"):
        command += ["--remount-ro", mount]
    return [*command, "--chdir", str(state), "--", *argv]


def _masked() -> list[str]:
    """Puts something empty over everything in `/proc` that tells of the machine."""
    options: list[str] = []
    for path in sorted(Path("/proc").iterdir()):
        if path.name in _PROC or path.name.isdigit() or path.is_symlink():
            continue
        if path.is_dir():
            options += ["--tmpfs", str(path), "--remount-ro", str(path)]
        else:
            options += ["--ro-bind", "/dev/null", str(path)]
    return options


def _system() -> list[str]:
    options = ["--ro-bind", str(_SYSTEM), str(_SYSTEM)]
    for name in _BESIDE_SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            options += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            options += ["--ro-bind", str(path), str(path)]
    for name in _ETC:
        options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return options


@contextmanager
def filter_of_system_calls() -> Iterator[int | None]:
    """A descriptor with the filter for one child, during the block; `None` where there is none."""
    program = filter_program()
    if program is None:
        yield None
        return
    descriptor = os.memfd_create("system-calls")
    try:
        os.write(descriptor, program)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def with_filter(command: Sequence[str], descriptor: int | None) -> list[str]:
    """A `sandbox_command` that puts the filter on its child; bubblewrap closes the descriptor."""
    option = [] if descriptor is None else ["--seccomp", str(descriptor)]
    return [command[0], *option, *command[1:]]


def minimal_environment(state: Path, import_folders: Sequence[Path]) -> dict[str, str]:
    """The whole environment of a child, sandboxed or not.

    Args:
        import_folders: where Python looks first; those of the interpreter need not be named.
    """
    environment = {
        "HOME": str(state),
        "LANG": "C.UTF-8",
        "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    if import_folders:
        environment["PYTHONPATH"] = ":".join(str(folder) for folder in import_folders)
    return environment


def interpreter_folders() -> tuple[Path, ...]:
    """Where this interpreter and its packages live, as named and with symbolic links resolved."""
    named = [Path(prefix) for prefix in (sys.prefix, sys.base_prefix)]
    return tuple(_outermost([*named, *(folder.resolve() for folder in named)]))


def shared_interpreter() -> tuple[Path, ...]:
    """Where the interpreter lives that the daemon's environment was made from, and no package of
    the daemon's."""
    named = Path(sys.base_prefix)
    return tuple(_outermost([named, named.resolve(), Path(sys.executable).resolve().parent.parent]))


def refuse_exposure(read_only: Iterable[Path], private: Iterable[Path]) -> None:
    """Refuses to bind a folder that is or contains a private one.

    Raises:
        SandboxError: names both folders.
    """
    hidden = [form for folder in private for form in (folder, folder.resolve())]
    for folder in read_only:
        for form in (folder, folder.resolve()):
            inside = next((path for path in hidden if path.is_relative_to(form)), None)
            if inside is not None:
                raise SandboxError(
                    f"The app would have to read {folder}, which contains the private folder "
                    f"{inside}. Move the environment or the app's sources to a folder of their own."
                )


def _outermost(folders: Iterable[Path]) -> list[Path]:
    """Without duplicates, what lies in another one, and what the system's folder covers."""
    kept: list[Path] = []
    for folder in sorted(set(folders), key=lambda path: len(path.parts)):
        if not any(folder.is_relative_to(outer) for outer in (_SYSTEM, *kept)):
            kept.append(folder)
    return kept
