"""The owner hears of a model's file that is no longer what was loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tactfuld.inference.weights_file import WeightsFile


def replaced(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def cut_short(path: Path) -> None:
    os.truncate(path, 3)


def written_over(path: Path) -> None:
    before = path.stat()
    path.write_bytes(b"WEIGHTS")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


@pytest.fixture
def file(tmp_path: Path) -> WeightsFile:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"weights")
    file = WeightsFile(path)
    file.note()
    return file


def test_nothing_is_said_of_a_file_that_is_as_it_was_loaded(file: WeightsFile) -> None:
    assert file.sentence(file.sign()) is None


@pytest.mark.parametrize("change", [replaced, cut_short, written_over])
def test_another_file_is_told(file: WeightsFile, change: Callable[[Path], None]) -> None:
    change(file.path)
    sentence = file.sentence(file.sign())
    assert sentence is not None
    assert str(file.path) in sentence
    assert "is not the one that was loaded" in sentence
    file.note()
    assert file.sentence(file.sign()) is None


def test_a_file_that_is_gone_is_told_with_what_to_do(file: WeightsFile) -> None:
    file.path.unlink()
    sentence = file.sentence(file.sign())
    assert sentence is not None
    assert "is gone" in sentence
    assert "tactful model use" in sentence
