"""The catalogue offers names that can be typed, and claims no hash that nobody here checked."""

import re

from tactfuld.models.catalogue import CATALOGUE, HubFile, offer, offer_of
from tactfuld.models.embedded import EMBEDDED
from tactfuld.settings import MODEL_NAME, Settings


def test_names_and_files_are_unique_and_can_be_typed() -> None:
    assert len({known.name for known in CATALOGUE}) == len(CATALOGUE)
    assert len({known.origin for known in CATALOGUE}) == len(CATALOGUE)
    assert all(re.fullmatch(MODEL_NAME, known.name) for known in CATALOGUE)


def test_only_the_embedded_model_comes_from_elsewhere_than_the_hub() -> None:
    (embedded,) = [known for known in CATALOGUE if known.origin is None]
    assert embedded.name == EMBEDDED.name == Settings().model.use


def test_files_are_whole_ggufs_of_a_repository() -> None:
    for known in CATALOGUE:
        if known.origin is not None:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+-GGUF", known.origin.repository)
            assert re.fullmatch(r"[\w.-]+\.gguf", known.origin.file)


def test_licences_that_are_not_free_come_with_their_terms() -> None:
    for known in CATALOGUE:
        assert (known.terms is None) == (known.licence == "Apache-2.0"), known.name


def test_is_looked_up_by_name_and_by_file() -> None:
    known = offer("qwen2.5-0.5b")
    assert known is not None
    assert known.origin is not None
    assert offer_of(known.origin) is known
    assert offer("nonesuch") is None
    assert offer_of(HubFile("o/r", "f.gguf")) is None
