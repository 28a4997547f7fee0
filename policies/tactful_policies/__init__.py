"""Starter policies, and the schema of the policy file, as data.

Decides which policies `tactful init` can begin with. What is *not* here: reading them
(`tactfuld.policy`), and how the schema comes about (`tactfuld.policy.schema`).
"""

from __future__ import annotations

from importlib import resources

STARTERS = {
    "everyday": "six topics and six protected attributes; a policy to live with",
    "strict": "the same, with half the budgets, everything covered, and no app let in",
    "health-aware": "more room and budget for health, food, movement and mood",
    "demo": "five memories and two attributes, as `tactful demo` plays it",
    "tutorial": "every key of the format with a comment; to read, too small to live with",
}
"""Each name with what is said about it where one is chosen; the first is the default."""

SCHEMA_FILE = "tactful-policy.schema.json"
"""Lies beside a policy, whose first line names it for editors."""


def starter_text(name: str) -> str:
    """The YAML text of a starter policy.

    Raises:
        ValueError: there is no starter of that name.
    """
    if name not in STARTERS:
        known = ", ".join(STARTERS)
        raise ValueError(f"There is no starter policy named {name}; there are {known}.")
    return _text(f"{name}.yaml")


def schema_text() -> str:
    """The JSON Schema of the policy file (draft-07)."""
    return _text(SCHEMA_FILE)


def _text(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
