"""A name means one file of the models folder; what is known of it lies beside it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tactful.errors import NotFound
from tactfuld.models.installed import (
    ModelRecord,
    delete_model,
    find_model,
    installed_models,
    model_file,
    write_record,
)

SHA256 = "ab" * 32


def record(size: int = 3) -> ModelRecord:
    return ModelRecord(
        source="hf:o/r/f.gguf@c0ffee",
        sha256=SHA256,
        vouched_by="hub",
        size=size,
        licence="MIT",
        installed_at=1,
    )


@pytest.fixture
def put(tmp_path: Path) -> Callable[[str], Path]:
    def put_file(name: str) -> Path:
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(b"abc")
        return path

    return put_file


def test_a_name_means_a_file_of_the_folder_and_a_path_itself(tmp_path: Path) -> None:
    assert model_file("qwen2.5", tmp_path) == tmp_path / "qwen2.5.gguf"
    assert model_file("/srv/m.gguf", tmp_path) == Path("/srv/m.gguf")
    assert model_file("~/m.gguf", tmp_path) == Path.home() / "m.gguf"


def test_lists_files_with_and_without_a_record(tmp_path: Path, put: Callable[[str], Path]) -> None:
    write_record(put("b"), record())
    put("a")
    (tmp_path / "c.gguf").mkdir()
    (tmp_path / "notes.txt").touch()
    first, second = installed_models(tmp_path)
    assert (first.name, first.size, first.record) == ("a", 3, None)
    assert (second.name, second.record) == ("b", record())


def test_lists_nothing_where_there_is_no_folder(tmp_path: Path) -> None:
    assert installed_models(tmp_path / "none") == ()


def test_a_record_of_another_size_is_not_of_this_file(put: Callable[[str], Path]) -> None:
    path = put("a")
    write_record(path, record(size=4))
    assert find_model(str(path), path.parent).record is None


@pytest.mark.parametrize(
    "damage",
    [
        b"", b"{", b"[]", b"\xff", b"x" * 100_000,
        json.dumps({**record().model_dump(), "sha256": "short"}).encode(),
        json.dumps({**record().model_dump(), "version": 2}).encode(),
        json.dumps({**record().model_dump(), "more": 1}).encode(),
        json.dumps({**record().model_dump(), "size": "3"}).encode(),
    ],
)  # fmt: skip
def test_a_damaged_record_is_no_record(put: Callable[[str], Path], damage: bytes) -> None:
    path = put("a")
    path.with_suffix(".json").write_bytes(damage)
    assert find_model("a", path.parent).record is None


def test_a_record_may_be_read_by_others_and_leaves_nothing_beside_it(
    put: Callable[[str], Path], tmp_path: Path
) -> None:
    path = put("a")
    write_record(path, record())
    assert path.with_suffix(".json").stat().st_mode & 0o777 == 0o644
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.gguf", "a.json"]


def test_names_with_dots_keep_their_records_apart(put: Callable[[str], Path]) -> None:
    write_record(put("qwen2.5-q4"), record())
    path = put("qwen2.5-q8")
    assert find_model("qwen2.5-q8", path.parent).record is None
    assert find_model("qwen2.5-q4", path.parent).record == record()


@pytest.mark.parametrize("name", ["..", ".hidden", "a b", "", "-x", "é", "a\n"])
def test_what_the_settings_do_not_take_is_no_name(put: Callable[[str], Path], name: str) -> None:
    path = put(name)
    with pytest.raises(NotFound):
        find_model(name, path.parent)
    assert installed_models(path.parent) == ()
    assert find_model(str(path), path.parent).path == path


def test_suggests_the_name_that_was_meant(put: Callable[[str], Path]) -> None:
    path = put("qwen2.5")
    with pytest.raises(NotFound, match=r"no model named qwen2\.4 .*did you mean qwen2\.5\?"):
        find_model("qwen2.4", path.parent)


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no model file /nowhere/m\.gguf"):
        find_model("/nowhere/m.gguf", tmp_path)


def test_deletes_file_and_record(put: Callable[[str], Path], tmp_path: Path) -> None:
    path = put("a")
    write_record(path, record())
    delete_model(find_model("a", tmp_path))
    assert list(tmp_path.iterdir()) == []
