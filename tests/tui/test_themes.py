"""Both themes can be read, and a terminal gets the one that suits it."""

import pytest
from textual.color import Color
from textual.theme import Theme

from tactful_tui.themes import DARK, LIGHT, fitting

LEAST_CONTRAST = 4.5
"""WCAG 2.1, level AA, for text."""


def luminance(color: Color) -> float:
    channels = (c / 255 for c in (color.r, color.g, color.b))
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(Color.parse(c)) for c in (one, other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_every_text_stands_out_from_every_background(theme: Theme) -> None:
    texts = {
        "foreground": theme.foreground, "success": theme.success, "warning": theme.warning,
        "error": theme.error, "primary": theme.primary, "muted": theme.variables["muted"],
    }  # fmt: skip
    for background in (theme.background, theme.panel, theme.variables["marked"]):
        for name, color in texts.items():
            assert contrast(str(color), str(background)) >= LEAST_CONTRAST, (name, background)


@pytest.mark.parametrize(
    ("environment", "theme"),
    [
        ({}, DARK),
        ({"COLORFGBG": "15;0"}, DARK),
        ({"COLORFGBG": "0;15"}, LIGHT),
        ({"COLORFGBG": "0;default;15"}, LIGHT),
        ({"COLORFGBG": "nonsense"}, DARK),
    ],
)
def test_a_terminal_that_says_it_is_light_gets_the_light_theme(
    environment: dict[str, str], theme: Theme
) -> None:
    assert fitting(environment) is theme
