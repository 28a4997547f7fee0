"""Shared by the tests of models: the real embedded one."""

from tests.model_fixture import embedded_model

__all__ = ["embedded_model"]
