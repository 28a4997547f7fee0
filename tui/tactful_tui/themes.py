"""The colours: one theme for dark terminals, one for light ones.

Decides which of them a terminal begins with. What is *not* here: where a colour is used.
"""

from __future__ import annotations

from collections.abc import Mapping

from textual.theme import Theme

DARK = Theme(
    name="tactful-dark",
    primary="#7fb0d8",
    secondary="#5f7f99",
    accent="#7fb0d8",
    success="#8fc17f",
    warning="#dfb866",
    error="#e58374",
    foreground="#d9dce2",
    background="#15171c",
    surface="#15171c",
    panel="#22262e",
    dark=True,
    variables={"muted": "#9097a4", "rule": "#3a404b", "marked": "#262c36"},
)
LIGHT = Theme(
    name="tactful-light",
    primary="#1f5f94",
    secondary="#50718c",
    accent="#1f5f94",
    success="#2f7030",
    warning="#8a5a00",
    error="#ab3226",
    foreground="#24282f",
    background="#fbfaf7",
    surface="#fbfaf7",
    panel="#eceae4",
    dark=False,
    variables={"muted": "#5d636d", "rule": "#c9c6bd", "marked": "#e6edf3"},
)

_LIGHT_BACKGROUNDS = {"7", "15"}


def fitting(environment: Mapping[str, str]) -> Theme:
    """The light theme for terminals that say so in `COLORFGBG`; few say anything."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if background in _LIGHT_BACKGROUNDS else DARK
