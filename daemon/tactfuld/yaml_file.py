"""Opening the owner's YAML files.

Decides how bytes become text: UTF-8, at most 1 MiB, anything else is a problem with a sentence.
What is *not* here: what the text says (`yaml_text`).
"""

from __future__ import annotations

from pathlib import Path

from tactful.errors import Problem
from tactfuld.problems import FileRefusedError
from tactfuld.yaml_text import LARGEST_TEXT, too_large


def read_text(path: Path) -> str:
    """The text of a YAML file.

    Raises:
        FileNotFoundError: there is no such file; what that means is the caller's to say.
        FileRefusedError: it cannot be opened, is too large, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_TEXT + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = error.strerror or "unknown error"
        raise _refused(path, f"the file cannot be read ({reason}); check it.") from error
    if len(content) > LARGEST_TEXT:
        raise _refused(path, too_large())
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        sentence = "the file is not UTF-8 from here on; save it as UTF-8."
        raise _refused(path, sentence, line) from error


def _refused(path: Path, sentence: str, line: int = 0) -> FileRefusedError:
    return FileRefusedError((Problem(str(path), line, min(line, 1), "", sentence),))
