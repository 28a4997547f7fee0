"""Import layers as a running interpreter sees them, and the size of the trusted base.

`lint-imports` reads source text; a child process sees what really gets loaded, through whatever
detour. NOT here: the contracts between our packages in full, which stand in `pyproject.toml`.
"""

import importlib.metadata
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import tactful_core

OURS = {
    "tactful_core", "tactful", "tactfuld", "tactful_meals", "tactful_policies", "tactful_eval",
}  # fmt: skip
IO_AND_PARSERS = {
    "aiosqlite", "asyncio", "keyring", "llama_cpp", "pluggy", "pydantic", "rich", "ruamel",
    "sqlite3", "structlog", "typer", "wordllama",
}  # fmt: skip
FRONT_ENDS_MUST_NOT = {"aiosqlite", "llama_cpp", "sqlite3", "textual", "wordllama"}

CORE_FILES = 19
CORE_LINES = 3900


def loaded_by(statements: str) -> set[str]:
    """Top-level modules in a fresh interpreter after `statements`, started outside this folder."""
    program = (
        f"{statements}\nimport sys\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), sep='\\n')"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, cwd="/", check=False
    )
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


def core_modules() -> list[str]:
    """Every module of the trusted core, by its dotted name."""
    folder = Path(tactful_core.__path__[0])
    return sorted(
        f"tactful_core.{path.stem}" for path in folder.glob("*.py") if path.stem[0] != "_"
    )


def test_core_loads_none_of_ours_and_nothing_that_does_io_or_parses() -> None:
    loaded = loaded_by("\n".join(f"import {name}" for name in ["tactful_core", *core_modules()]))
    assert "tactful_core" in loaded
    assert not loaded & (OURS - {"tactful_core"} | IO_AND_PARSERS)


def test_tactful_loads_none_of_ours_and_no_engine() -> None:
    loaded = loaded_by(
        "import tactful, tactful.wire, tactful.errors, tactful.owner_client, tactful.app_client"
    )
    assert "tactful" in loaded
    assert not loaded & (OURS - {"tactful"} | FRONT_ENDS_MUST_NOT)


def test_an_app_loads_tactful_only() -> None:
    loaded = loaded_by("import tactful_meals.app")
    assert "tactful_meals" in loaded
    assert not loaded & (OURS - {"tactful", "tactful_meals"} | FRONT_ENDS_MUST_NOT)


def test_the_terminal_interface_loads_tactful_only() -> None:
    loaded = loaded_by("import tactful_tui.app, tactful_tui.__main__")
    assert "tactful_tui" in loaded
    assert not loaded & (OURS - {"tactful"} | FRONT_ENDS_MUST_NOT - {"textual"})


def test_daemon_loads_no_app_and_no_experiment() -> None:
    loaded = loaded_by("import tactfuld.main")
    assert "tactfuld" in loaded
    assert not loaded & {"tactful_meals", "tactful_eval", "textual"}


def test_version_loads_no_engine_no_app_and_no_terminal_interface() -> None:
    loaded = loaded_by(
        "import contextlib, io, sys\n"
        "sys.argv = ['tactful', '--version']\n"
        "from tactful.cli.main import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "    sys.exit(main())"
    )
    assert not loaded & (OURS - {"tactful"} | FRONT_ENDS_MUST_NOT)


def test_version_is_the_distributions() -> None:
    script = Path(sys.executable).with_name("tactful")
    run = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert importlib.metadata.version("tactful") in run.stdout
    assert run.stdout.strip().isprintable()


def test_trusted_core_stays_small_enough_to_read_in_one_sitting(
    record_property: Callable[[str, object], None],
) -> None:
    """Growing past these numbers is a decision record, not an edit of this file alone."""
    sizes = {
        path.name: len(path.read_text(encoding="utf-8").splitlines())
        for path in Path(tactful_core.__path__[0]).rglob("*.py")
    }
    lines = sum(sizes.values())
    record_property("core_files", len(sizes))
    record_property("core_lines", lines)
    assert len(sizes) <= CORE_FILES, sizes
    assert lines <= CORE_LINES, f"{lines} lines: {sizes}"
