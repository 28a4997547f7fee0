"""A pulled model gets a name that is its own, and never takes that of another file."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.tactfuld.inference.families import SMOLLM2
from tests.tactfuld.inference.tiny_model import tiny_model
from tests.tactfuld.models.local_hub import COMMIT, LocalHub, serving

from tactful.errors import AlreadyExists, ModelFailed, NotFound, UsageError
from tactful.profile import Profile
from tactfuld import main as command
from tactfuld import one_shot
from tactfuld.models import hub as hub_module
from tactfuld.models.catalogue import HubFile
from tactfuld.models.hub import RemoteFile, Repository
from tactfuld.models.installed import ModelRecord, installed_models, write_record
from tactfuld.models.pulling import choose, name_for, pull, wanted_file
from tactfuld.settings import load_settings

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

TINY = tiny_model(SMOLLM2)
SHA256 = hashlib.sha256(TINY).hexdigest()
REPOSITORY = "owner/tiny-GGUF"


def remote(file: str, repository: str = REPOSITORY, sha256: str = SHA256) -> RemoteFile:
    return RemoteFile(HubFile(repository, file), COMMIT, sha256, len(TINY), "mit")


def repository(*files: str) -> Repository:
    return Repository(REPOSITORY, tuple(remote(file) for file in files))


def quiet(_done: int, _total: int) -> None:
    return None


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("o/r", ("o/r", None)),
        ("o/r/f.gguf", ("o/r", "f.gguf")),
        ("o/r/folder/f.gguf", ("o/r", "folder/f.gguf")),
    ],
)
def test_words_name_a_repository_or_a_file(words: str, wanted: tuple[str, str | None]) -> None:
    assert wanted_file(words) == wanted


@pytest.mark.parametrize("words", ["name", "", "/r", "o/", "o/r/"])
def test_other_words_are_refused(words: str) -> None:
    with pytest.raises(UsageError):
        wanted_file(words)


class TestChoice:
    def test_takes_the_only_file(self) -> None:
        assert choose(repository("a-Q8_0.gguf"), None).origin.file == "a-Q8_0.gguf"

    def test_takes_the_usual_one_of_many(self) -> None:
        many = repository("a-Q2_K.gguf", "a-Q4_K_M.gguf", "a-f16.gguf")
        assert choose(many, None).origin.file == "a-Q4_K_M.gguf"

    def test_asks_where_there_is_no_usual_one(self) -> None:
        with pytest.raises(NotFound, match=r"several models; .*: a-Q2_K\.gguf, a-f16\.gguf\."):
            choose(repository("a-f16.gguf", "a-Q2_K.gguf"), None)

    def test_leaves_parts_of_models_out(self) -> None:
        split = repository("a-q4_k_m-00001-of-00002.gguf", "a-q4_k_m-00002-of-00002.gguf")
        with pytest.raises(NotFound, match="no whole GGUF file"):
            choose(split, None)
        with pytest.raises(NotFound, match="a part of a model"):
            choose(split, "a-q4_k_m-00001-of-00002.gguf")

    def test_takes_the_file_that_is_named_or_says_which_there_are(self) -> None:
        many = repository("a-Q2_K.gguf", "b.gguf")
        assert choose(many, "a-Q2_K.gguf").origin.file == "a-Q2_K.gguf"
        with pytest.raises(NotFound, match=r"no GGUF file c\.gguf .* a-Q2_K\.gguf, b\.gguf"):
            choose(many, "c.gguf")


class TestName:
    def test_is_the_files_in_small_letters(self, tmp_path: Path) -> None:
        assert name_for(remote("Some Model (v1)-Q4_K_M.gguf"), tmp_path) == ("some-model-v1-q4_k_m")
        assert name_for(remote("folder/x.gguf"), tmp_path) == "x"
        assert name_for(remote("...gguf"), tmp_path) == "model"
        assert len(name_for(remote("x" * 300 + ".gguf"), tmp_path)) <= 80

    def test_is_the_catalogues_for_its_own_files_only(self, tmp_path: Path) -> None:
        known = remote("qwen2.5-0.5b-instruct-q4_k_m.gguf", "Qwen/Qwen2.5-0.5B-Instruct-GGUF")
        assert name_for(known, tmp_path) == "qwen2.5-0.5b"
        assert name_for(remote("qwen2.5-0.5b.gguf"), tmp_path) == "owner-qwen2.5-0.5b"
        assert name_for(remote("SmolLM2.gguf"), tmp_path) == "owner-smollm2"

    def test_steps_aside_for_files_of_other_origin(self, tmp_path: Path) -> None:
        (tmp_path / "a.gguf").write_bytes(b"by hand")
        assert name_for(remote("a.gguf"), tmp_path) == "owner-a"
        put(tmp_path / "owner-a.gguf", "hf:owner/another/a.gguf@1")
        assert name_for(remote("a.gguf"), tmp_path) == f"a-{SHA256[:16]}"

    def test_stays_for_a_newer_version_of_the_same_file(self, tmp_path: Path) -> None:
        put(tmp_path / "a.gguf", f"hf:{REPOSITORY}/a.gguf@older")
        assert name_for(remote("a.gguf"), tmp_path) == "a"

    def test_of_the_catalogue_is_not_taken_from_a_file_put_there_by_hand(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "qwen2.5-0.5b.gguf").write_bytes(b"by hand")
        known = remote("qwen2.5-0.5b-instruct-q4_k_m.gguf", "Qwen/Qwen2.5-0.5B-Instruct-GGUF")
        with pytest.raises(AlreadyExists, match=r"The name qwen2\.5-0\.5b is taken"):
            name_for(known, tmp_path)


def put(path: Path, source: str) -> None:
    path.write_bytes(b"abc")
    record = ModelRecord(
        source=source, sha256="ab" * 32, vouched_by="hub", size=3, licence=None, installed_at=1
    )
    write_record(path, record)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LocalHub]:
    with serving(LocalHub(files={"tiny.gguf": TINY})) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.endpoint)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setattr(hub_module, "SPARE_BYTES", 0)
        yield served


class TestPull:
    def test_puts_a_file_and_its_record_under_its_name(
        self, hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(time, "time", lambda: 1234.5)
        models = tmp_path / "models"
        pulled = pull(REPOSITORY, None, models, quiet)
        assert pulled.fetched
        assert installed_models(models) == (pulled.model,)
        assert pulled.model.path.read_bytes() == TINY
        assert pulled.model.path.stat().st_mode & 0o777 == 0o644
        assert pulled.model.record == ModelRecord(
            source=f"hf:{REPOSITORY}/tiny.gguf@{COMMIT}",
            sha256=SHA256,
            vouched_by="hub",
            size=len(TINY),
            licence="mit",
            installed_at=1234,
        )
        assert hub.fetches() == [None]

    def test_again_only_compares(self, hub: LocalHub, tmp_path: Path) -> None:
        pull(REPOSITORY, "tiny.gguf", tmp_path, quiet)
        assert not pull(REPOSITORY, "tiny.gguf", tmp_path, quiet).fetched
        assert len(hub.fetches()) == 1

    def test_mends_a_file_that_was_damaged(self, hub: LocalHub, tmp_path: Path) -> None:
        path = pull(REPOSITORY, None, tmp_path, quiet).model.path
        path.write_bytes(TINY[:-1] + b"!")
        assert pull(REPOSITORY, None, tmp_path, quiet).fetched
        assert path.read_bytes() == TINY
        assert len(hub.fetches()) == 2

    def test_brings_a_newer_version_in_the_place_of_the_older(
        self, hub: LocalHub, tmp_path: Path
    ) -> None:
        pull(REPOSITORY, None, tmp_path, quiet)
        hub.files["tiny.gguf"] = TINY + b"newer"
        pulled = pull(REPOSITORY, None, tmp_path, quiet)
        assert installed_models(tmp_path) == (pulled.model,)
        assert pulled.model.path.read_bytes() == TINY + b"newer"

    def test_wrong_bytes_take_no_name(self, hub: LocalHub, tmp_path: Path) -> None:
        hub.hashes["tiny.gguf"] = "ab" * 32
        with pytest.raises(ModelFailed, match="SHA-256"):
            pull(REPOSITORY, None, tmp_path, quiet)
        assert installed_models(tmp_path) == ()
        assert list((tmp_path / ".parts").iterdir()) == []


class TestCommand:
    @pytest.fixture
    def run(
        self, profile_dir: Path, capsys: pytest.CaptureFixture[str]
    ) -> Callable[..., list[dict[str, Any]]]:
        profile = replace(Profile.at(profile_dir), cache=profile_dir / "cache")
        profile.config.mkdir()

        def run_one(*arguments: str) -> list[dict[str, Any]]:
            parsed = command._parser().parse_args(["one-shot", *arguments])
            one_shot.run(profile, None, parsed)
            return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

        return run_one

    @pytest.mark.usefixtures("hub")
    def test_fetches_checks_tries_and_can_be_used(
        self, run: Callable[..., list[dict[str, Any]]], profile_dir: Path
    ) -> None:
        *progress, last = run("model-pull", f"{REPOSITORY}/tiny.gguf")
        whats = list(dict.fromkeys(line["progress"]["what"] for line in progress))
        fetching = f"fetching {REPOSITORY}/tiny.gguf"
        assert whats == ["asking the hub", fetching, "trying tiny"]
        model = last["data"]["model"]
        assert (model["name"], model["vouched_by"], model["sha256"]) == ("tiny", "hub", SHA256)
        run("model-use", "tiny")
        assert load_settings(Profile.at(profile_dir).settings_file).model.use == "tiny"

    def test_a_file_that_llama_cpp_refuses_is_kept_and_told(
        self, run: Callable[..., list[dict[str, Any]]], hub: LocalHub, profile_dir: Path
    ) -> None:
        hub.files["tiny.gguf"] = b"<html>Not a model at all.</html>" * 4
        with pytest.raises(ModelFailed, match="it is a web page"):
            run("model-pull", REPOSITORY)
        assert (profile_dir / "cache" / "models" / "tiny.gguf").exists()
