"""Finding a planted text in the memory of a process (Linux)."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.planted import found_in


def found_in_memory(pid: int, *planted: str) -> list[str]:
    """The forms of the planted texts that are anywhere in what a process has mapped."""
    found: list[str] = []
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, _, _, _, *name = line.split(maxsplit=5)
            if "w" not in rights or (name and name[0].startswith("[v")):
                continue  # what cannot be written holds files, and no text that came later
            start, end = (int(edge, 16) for edge in span.split("-"))
            memory.seek(start)
            try:
                data = memory.read(end - start)
            except OSError:
                continue  # it was unmapped meanwhile
            found += [f"{form} in {name[0] if name else span}" for form in found_in(data, *planted)]
    return found
