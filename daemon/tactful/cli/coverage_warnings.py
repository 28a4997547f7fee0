"""What the owner is told about a text that seems to imply an attribute which does not cover it.

Decides the words, and that filing it there is meant. What is *not* here: what a text seems to imply
(the daemon).

Invariant: where nobody can be asked, only `--yes` agrees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tactful.errors import UsageError

if TYPE_CHECKING:
    from tactful.cli.invocation import Invocation
    from tactful.owner_wire import CoverageWarning


def told(warning: CoverageWarning, shelf: str) -> str:
    """The warning in one sentence."""
    from tactful.visible_text import visible

    said = [
        f"{verb} {visible(' and '.join(names))}"
        for verb, names in (("seems to imply", warning.likely), ("may imply", warning.possible))
        if names
    ]
    many = len(warning.likely) + len(warning.possible) > 1
    return (
        f"This {' and '.join(said)}, which {'do' if many else 'does'} not cover {visible(shelf)}."
    )


def agreed(
    call: Invocation, warning: CoverageWarning, shelf: str, *, given_up: str, elsewhere: bool
) -> str | None:
    """Asks whether a text is to stand on a shelf in spite of a warning.

    Args:
        elsewhere: whether another shelf may be named; `given_up`: that nothing was changed.

    Returns:
        None if it is; the other shelf if one was named.

    Raises:
        UsageError: it is not, or nobody can be asked.
    """
    from tactful.cli.questions import answer

    sentence = told(warning, shelf)
    if not call.can_ask:
        advice = f" or a better shelf ({warning.better})" if elsewhere and warning.better else ""
        raise UsageError(f"{sentence} Give --yes to do it all the same{advice}. {given_up}")
    call.output.notes.print(sentence)
    example = f" ({warning.better})" if warning.better else ""
    other = f", or the name of another shelf{example}" if elsewhere else ""
    typed = answer(call.output.notes, f"Type yes to do it all the same{other}: ")
    if typed == "yes":
        return None
    if elsewhere and "." in typed:
        return typed
    raise UsageError(f"That was not `yes`. {given_up}")
