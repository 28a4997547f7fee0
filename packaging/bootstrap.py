"""Makes `.venv` ready in a clone: what `make setup` runs.

Decides which folder holds the virtual environment, when it is made anew, how llama-cpp-python is
built and where the built wheel is kept. NOT here: which packages (`pyproject.toml`), which versions
(`constraints.txt`), where the model lies (`tactfuld one-shot model-install`).

Invariants
- Standard library only: this runs before anything is installed.
- llama-cpp-python is built at most once per machine and set of flags: the wheel is kept in the
  user's cache, built under a lock, and appears there complete or not at all.
- When nothing changed since the last run (the stamp), nothing is installed.
- Control characters are written to a terminal only.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import platform
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / ".tactful-setup"
CONSTRAINTS = ROOT / "constraints.txt"
SLIM = ROOT / "packaging" / "llama_slim.cmake"
LLAMA = "llama-cpp-python"
TAIL_LINES = 15

# Off: the vision library, TLS and compiler warnings, none of which the Python package uses here.
# Native: the wheel never leaves this machine, so it may use every instruction the machine has.
BUILD_FLAGS = (
    "-DLLAVA_BUILD=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_ALL_WARNINGS=OFF",
    "-DGGML_ALL_WARNINGS=OFF",
    "-DGGML_NATIVE=ON",
)


class SetupError(Exception):
    """What went wrong and what the person at the keyboard can do about it, in whole sentences."""


def main() -> int:
    """Run every step; returns the exit status. Errors become one paragraph on stderr."""
    try:
        cache = wheel_cache(os.environ)
        key = wheel_key(llama_version(), os.environ)
        if not is_current(stamp(key)):
            wheel = cached_wheel(cache, key)
            if wheel is None:
                require_compiler(os.environ)
            make_environment()
            if wheel is None:
                wheel = build_wheel_once(cache, key)
            install(wheel)
            STAMP.write_text(stamp(key), encoding="utf-8")
        obtain_model()
        return 0
    except SetupError as error:
        print(f"\nsetup failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsetup was interrupted; run `make setup` again to go on.", file=sys.stderr)
        return 130


# ---- what is current ----------------------------------------------------------------------------


def stamp(key: str) -> str:
    """What the environment depends on: first line the interpreter and folder, second the rest."""
    inputs = hashlib.sha256()
    for path in (ROOT / "pyproject.toml", CONSTRAINTS):
        inputs.update(path.read_bytes())
    inputs.update(key.encode())
    return f"{base_stamp()}\n{inputs.hexdigest()}\n"


def base_stamp() -> str:
    """A change of these asks for a new virtual environment, not only for other packages."""
    return f"{platform.python_implementation()} {platform.python_version()} {VENV}"


def is_current(wanted: str) -> bool:
    """True when the last complete setup had the same inputs and its interpreter still starts."""
    return STAMP.is_file() and STAMP.read_text(encoding="utf-8") == wanted and venv_starts()


def venv_starts() -> bool:
    """True when `.venv` holds an interpreter of the version that runs this file."""
    python = VENV / "bin" / "python"
    if not python.exists():
        return False
    probe = "import platform; print(platform.python_version())"
    run = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False)
    return run.returncode == 0 and run.stdout.strip() == platform.python_version()


def make_environment() -> None:
    """Create `.venv`; an existing one is kept when interpreter and folder are the same."""
    moved = STAMP.is_file() and not STAMP.read_text(encoding="utf-8").startswith(base_stamp())
    if venv_starts() and not moved:
        return
    if importlib.util.find_spec("ensurepip") is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise SetupError(
            f"this Python cannot make virtual environments, because its `ensurepip` is missing. "
            f"On Debian and Ubuntu: apt install python{version}-venv. Then run `make setup` again."
        )
    say(f"making {VENV.name} with Python {platform.python_version()}")
    venv.EnvBuilder(clear=True, symlinks=True, with_pip=True).create(VENV)


# ---- llama-cpp-python ---------------------------------------------------------------------------


def llama_version() -> str:
    """The version pinned in `constraints.txt`."""
    pin = re.search(r"(?mi)^llama[-_]cpp[-_]python==(\S+)", CONSTRAINTS.read_text(encoding="utf-8"))
    if pin is None:
        raise SetupError(f"{CONSTRAINTS.name} pins no version of {LLAMA}; restore that line.")
    return pin.group(1)


def wheel_cache(environ: Mapping[str, str]) -> Path:
    """The folder for built wheels in the user's cache, or in the clone where there is no cache."""
    home = Path(environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)
    base = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    if environ.get("XDG_CACHE_HOME", "").startswith("/"):
        base = Path(environ["XDG_CACHE_HOME"])
    wheels = base / "tactful" / "wheels"
    try:
        wheels.mkdir(parents=True, exist_ok=True)
    except OSError:
        wheels = ROOT / ".cache" / "wheels"
        wheels.mkdir(parents=True, exist_ok=True)
    return wheels


def wheel_key(version: str, environ: Mapping[str, str]) -> str:
    """Name of one build: version, platform, digest of flags and processor.

    The Python version is no part of it: the wheel is tagged `py3-none` and serves all of them.
    """
    parts = (
        *BUILD_FLAGS,
        SLIM.read_text(encoding="utf-8"),
        environ.get("CMAKE_ARGS", ""),
        environ.get("CXX", ""),
        processor(),
        "".join(platform.libc_ver()),
    )
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    return f"{version}-{sysconfig.get_platform()}-{digest}"


def processor() -> str:
    """The instruction sets of this machine: a native build must not be used with fewer."""
    if sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    try:
        listing = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.machine()
    found = re.search(r"(?m)^(?:flags|Features|isa|features)\s*:\s*(.*)$", listing)
    return " ".join(sorted(found.group(1).split())) if found else platform.machine()


def cached_wheel(cache: Path, key: str) -> Path | None:
    """The wheel of an earlier build, if there is one."""
    return next((cache / key).glob("*.whl"), None)


def require_compiler(environ: Mapping[str, str]) -> None:
    """Refuse early, with the remedy, where the build could only fail minutes later."""
    names = [environ["CXX"]] if environ.get("CXX") else ["c++", "g++", "clang++"]
    if not any(shutil.which(name) for name in names):
        raise SetupError(
            f"no C++ compiler was found (looked for {', '.join(names)}), and {LLAMA} is built "
            "from source. On Debian and Ubuntu: apt install g++. On Fedora: dnf install gcc-c++. "
            "On macOS: xcode-select --install. Then run `make setup` again."
        )


def build_wheel_once(cache: Path, key: str) -> Path:
    """Build unless another clone is at it; then wait for its wheel. Returns the wheel's path."""
    with locked(cache / f"{key}.lock"):
        wheel = cached_wheel(cache, key)
        if wheel is None:
            for abandoned in cache.glob(f".{key}-*"):  # by a build that was killed
                shutil.rmtree(abandoned, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=cache, prefix=f".{key}-") as scratch:
                build_wheel(Path(scratch), log_path=cache / f"{key}.log")
                Path(scratch, "wheel").rename(cache / key)
            wheel = cached_wheel(cache, key)
    if wheel is None:
        raise SetupError(f"the build of {LLAMA} left no wheel; its log is {cache / key}.log.")
    return wheel


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the exclusive lock `path`; says so when it has to wait for another clone."""
    with path.open("a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another clone is building {LLAMA}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build_wheel(scratch: Path, log_path: Path) -> None:
    """Run `pip wheel` with the slim flags into `scratch/wheel`, with progress and a log.

    pip's own cache is off, because it would hand out a build with other flags.
    """
    version = llama_version()
    say(f"building {LLAMA} {version}, once per machine: this takes some minutes")
    flags = [*BUILD_FLAGS, f"-DCMAKE_PROJECT_llama_cpp_INCLUDE={SLIM}"]
    environ = {
        **os.environ,
        "CMAKE_ARGS": f"{shlex.join(flags)} {os.environ.get('CMAKE_ARGS', '')}".strip(),
        "SKBUILD_CMAKE_VERBOSE": "false",
        "TMPDIR": str(scratch),
    }
    command: list[str | Path] = [VENV / "bin" / "python", "-m", "pip", "wheel", "--verbose"]
    command += ["--no-cache-dir", "--no-deps", "--no-binary", LLAMA]
    command += ["--wheel-dir", scratch / "wheel", f"{LLAMA}=={version}"]
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    bar = Progress("compiling")
    with (
        log_path.open("w", encoding="utf-8") as log,
        subprocess.Popen(
            command,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as build,
    ):
        explained = False  # what follows pip's own error report only repeats it
        for line in build.stdout or ():
            log.write(line)
            bar.see(line)
            explained = explained or "subprocess-exited-with-error" in line
            if line.strip() and not explained:
                tail.append(line.rstrip())
    bar.close()
    if build.returncode != 0:
        raise SetupError(explain(f"building {LLAMA} failed", tail) + f" The whole log: {log_path}")


# ---- packages -----------------------------------------------------------------------------------


def install(wheel: Path) -> None:
    """Install the built wheel, then this project in development mode with its pinned packages."""
    say("installing packages: about a minute")
    pip("install", "--no-deps", "--force-reinstall", str(wheel))
    pip("install", "--constraint", str(CONSTRAINTS), "--editable", f"{ROOT}[test,dev]")


def pip(*arguments: str) -> None:
    """Run pip quietly; its last lines are shown only when it fails."""
    run = subprocess.run(
        [VENV / "bin" / "python", "-m", "pip", "--quiet", *arguments],
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if run.returncode != 0:
        raise SetupError(explain("installing packages failed", run.stdout.splitlines()))


def obtain_model() -> None:
    """The embedded model, by `tactfuld one-shot model-install`; quick where it is there already."""
    bar = Progress("fetching the model, MB")
    command: list[str | Path] = [VENV / "bin" / "tactfuld", "one-shot", "model-install"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout or ():
            message = json.loads(line)
            if "progress" in message:
                done, total = message["progress"]["done"], message["progress"]["total"]
                if total:
                    bar.show(done // 1_000_000, max(1, total // 1_000_000))
            elif "error" in message:
                raise SetupError(message["error"]["message"])
    bar.close()
    if child.returncode != 0:
        raise SetupError(f"tactfuld ended with status {child.returncode}; run `make setup` again.")


def explain(what: str, output: deque[str] | list[str]) -> str:
    """The failure, the last lines that pip wrote, and the likeliest remedy."""
    lines = list(output)[-TAIL_LINES:]
    text = "\n".join(lines)
    if re.search(r"(?i)no space left", text):
        remedy = "The disk is full: free about 2 GB, then run `make setup` again."
    elif re.search(
        r"(?i)no matching distribution|connection ?error|name resolution|timed out", text
    ):
        remedy = "pip could not reach its package index: check the network, then try again."
    else:
        remedy = "When the cause is mended (a C++17 compiler is needed), run `make setup` again."
    return (
        f"{what}. The last lines were:\n\n" + "\n".join(f"  {x}" for x in lines) + f"\n\n{remedy}"
    )


# ---- what the person sees -----------------------------------------------------------------------


def say(text: str) -> None:
    """One plain line."""
    print(f"setup: {text}", flush=True)


class Progress:
    """Turns ninja's `[23/83]` into a bar on a terminal, and into a few plain lines elsewhere."""

    WIDTH = 32
    PLAIN_STEPS = 5

    def __init__(self, label: str) -> None:
        self._label = label
        self._terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._shown = -1
        self._drawn = False

    def see(self, line: str) -> None:
        """Take one line of build output; anything but a counted step is ignored."""
        step = re.match(r"\s*\[(\d+)/(\d+)\]", line)
        if step is None:
            return
        self.show(int(step[1]), int(step[2]))

    def show(self, done: int, total: int) -> None:
        """So much of so much is done."""
        self._drawn = True
        if self._terminal:
            filled = self.WIDTH * done // total
            bar = "█" * filled + "·" * (self.WIDTH - filled)
            print(f"\r\x1b[2K  {self._label} {bar} {done}/{total}", end="", flush=True)
        elif done * self.PLAIN_STEPS // total > self._shown:
            self._shown = done * self.PLAIN_STEPS // total
            say(f"{self._label} {done} of {total}")

    def close(self) -> None:
        """Leave the bar's line."""
        if self._terminal and self._drawn:
            print(flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
