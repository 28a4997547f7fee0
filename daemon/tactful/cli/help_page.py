"""The first page of `tactful --help`: which commands belong together.

Decides sections and their order, and how examples look. What is *not* here: what a command says
about itself.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

SECTIONS = {
    "Begin": ("demo", "init", "start", "status", "stop"),
    "Every day": ("remember", "memory", "ask", "tell", "inbox", "tui"),
    "What apps may ask, and what it cost": (
        "apps",
        "events",
        "history",
        "ledger",
        "epoch",
        "audit",
    ),
    "Keys": ("lock", "unlock", "key", "recover"),
    "Backups, and the end": ("backup", "restore", "purge"),
    "Set up": ("policy", "config", "model", "doctor", "paths", "completion"),
}
"""Every command stands in one section; a test compares."""


def examples(*lines: str) -> str:
    """What stands under a command's help: command lines to copy."""
    return "\n".join(["\b", "Examples:", *(f"  tactful {line}" for line in lines)])


class SectionedGroup(TyperGroup):
    """The outermost command; its help lists the commands by section."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of the sections; one that stands in none comes last."""
        known = super().list_commands(ctx)
        ordered = [name for names in SECTIONS.values() for name in names if name in known]
        return ordered + [name for name in known if name not in ordered]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        known = self.list_commands(ctx)
        width = max(map(len, known))
        unsorted = [name for name in known if not any(name in each for each in SECTIONS.values())]
        for title, names in {**SECTIONS, "More": unsorted}.items():
            rows = [
                (name.ljust(width), self._in_short(ctx, formatter, name, width))
                for name in names
                if name in known
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _in_short(self, ctx: Any, formatter: Any, name: str, width: int) -> str:
        command = self.get_command(ctx, name)
        return command.get_short_help_str(formatter.width - width - 6) if command else ""
