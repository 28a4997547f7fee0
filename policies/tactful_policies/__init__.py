"""Starter policies, as data.

Decides which policies `tactful init` can begin with. What is *not* here: reading them
(`tactfuld.policy`).
"""

from __future__ import annotations

from importlib import resources

STARTERS = {
    "everyday": "six topics and six protected attributes; a policy to live with",
    "demo": "five memories and two attributes, as `tactful demo` plays it",
}
"""Each name with what is said about it where one is chosen; the first is the default."""


def starter_text(name: str) -> str:
    """The YAML text of a starter policy.

    Raises:
        ValueError: there is no starter of that name.
    """
    if name not in STARTERS:
        known = " or ".join(STARTERS)
        raise ValueError(f"There is no starter policy named {name}; choose {known}.")
    return resources.files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
