"""docs/models.md has the catalogue as it is."""

from pathlib import Path

from tactfuld.models.catalogue import CATALOGUE

DOCUMENT = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")


def test_has_every_model_with_its_licence_and_machine() -> None:
    rows = [line for line in DOCUMENT.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{known.name}` | {known.title} | {known.licence} | {known.suits} |"
        for known in CATALOGUE
    ]
