"""Starter policies, the schema of the policy file, and the coverage lint's weights, as data.

Decides which policies `tactful init` can begin with. What is *not* here: reading them
(`tactfuld.policy`), how the schema comes about (`tactfuld.policy.schema`), and how the weights do
(`python -m tactful_eval lint --train`).
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

COVERAGE_FILE = "coverage-weights.json"

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


def coverage_weights_text() -> str:
    """What the coverage lint knows about attributes: the weights of `tactfuld.coverage`."""
    return _text(COVERAGE_FILE)


def _text(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
