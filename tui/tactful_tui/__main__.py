"""What `tactful tui` becomes: `python -m tactful_tui [--profile DIR]`.

Decides which profile is watched. What is *not* here: whether there is a terminal, which the command
line has made sure of.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tactful.profile import Profile
from tactful_tui.app import TactfulTui


def main() -> int:
    """Runs until the owner leaves; 0 unless it ended by a defect."""
    parser = argparse.ArgumentParser(prog="tactful tui")
    parser.add_argument("--profile", type=Path, metavar="DIR")
    folder: Path | None = parser.parse_args().profile
    for fixed_size in ("COLUMNS", "LINES"):  # exported by some shell, they outlive a resize
        os.environ.pop(fixed_size, None)
    app = TactfulTui(Profile.chosen(folder), name_of(folder))
    app.run(mouse=False)
    return app.return_code or 0


def name_of(folder: Path | None) -> str:
    """How the owner knows a profile."""
    if folder is None:
        return "default"
    inside = folder.is_relative_to(Path.home())
    return f"~/{folder.relative_to(Path.home())}" if inside else str(folder)


if __name__ == "__main__":
    sys.exit(main())
