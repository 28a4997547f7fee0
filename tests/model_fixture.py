"""The embedded model for tests, from the user's cache. NOT here: anything that loads it.

Use it by importing the fixture: `from tests.model_fixture import embedded_model`.
"""

from pathlib import Path

import pytest
from platformdirs import user_cache_path

from tactfuld.inference.errors import ModelError
from tactfuld.models.embedded import install_embedded


@pytest.fixture(scope="session")
def embedded_model() -> Path:
    """The path of the embedded GGUF, fetched if the cache lacks it; skips if that fails."""
    try:
        return install_embedded(user_cache_path("tactful") / "models", lambda _done, _total: None)
    except ModelError as error:
        pytest.skip(f"The embedded model cannot be obtained: {error}")
