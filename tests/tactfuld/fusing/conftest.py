"""Shared by the tests of fused text: the real model, loaded for direct calls."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.model_fixture import embedded_model

from tactfuld.inference.llama_api import LlamaModel, LoadRequest

__all__ = ["embedded_model"]


@pytest.fixture(scope="session")
def model(embedded_model: Path) -> Iterator[LlamaModel]:
    """The embedded model, for tests that call it from their own thread."""
    loaded = LlamaModel(LoadRequest(embedded_model, 1024, 64, 1, lambda _done: True, "off"))
    yield loaded
    loaded.close()
