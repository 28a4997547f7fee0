"""Shared by the inference tests: the real model, and one model loaded for direct calls."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.model_fixture import embedded_model

from tactfuld.inference.llama_api import LlamaModel, LoadRequest

__all__ = ["embedded_model"]


@pytest.fixture(scope="session")
def llama_model(embedded_model: Path) -> Iterator[LlamaModel]:
    """The embedded model with a small context, for tests that call it from their own thread."""
    model = LlamaModel(
        LoadRequest(
            path=embedded_model,
            context_length=256,
            batch=64,
            threads=1,
            on_progress=lambda _done: True,
        )
    )
    yield model
    model.close()
