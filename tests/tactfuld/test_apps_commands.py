"""Adding an app, granting it exactly what the owner says, and taking both away again."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.app_hosting import usable_sandbox
from tests.fakes.app_project import write_wheel

from tactful.errors import NotFound, PolicyRefused, Unusable, UsageError
from tactful.profile import Profile
from tactful_core.values import AppId
from tactful_policies import starter_text
from tactfuld.apps.environments import own_apps
from tactfuld.apps.tokens import FILE_NAME, AppTokens
from tactfuld.apps_commands import add_apps_commands, run_apps_command

SOURCE = """
from tactful import EventKind, FolderWish, Manifest, Setting, hookimpl

@hookimpl
def tactful_manifest():
    return Manifest(
        name="shop", title="Shop", version="1", slots=("food", "weather"), fresh={"food": 2},
        events=(EventKind.MESSAGE,), folders=(FolderWish(purpose="recipes"),),
    )

@hookimpl
def tactful_settings():
    return [Setting(key="people", title="How many eat", default=2)]

@hookimpl
async def tactful_on_event(event, agent):
    pass
"""
MORE = SOURCE.replace('("food", "weather")', '("food", "weather", "health")').replace(
    '{"food": 2}', '{"food": 5}'
)


def run(profile: Profile, *words: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="one_shot", required=True)
    add_apps_commands(lambda name, text: commands.add_parser(name, help=text))
    arguments = parser.parse_args(words)
    return run_apps_command(profile, arguments, lambda *_: None)


def made(folder: Path) -> Profile:
    profile = Profile.at(folder)
    profile.config.mkdir(parents=True)
    profile.policy_file.write_text(starter_text("everyday"), encoding="utf-8")
    return profile


@pytest.fixture
def profile(profile_dir: Path) -> Profile:
    """A profile with a policy and nothing else."""
    return made(profile_dir)


@pytest.fixture(scope="module")
def added() -> Iterator[tuple[Profile, dict[str, Any], Path]]:
    """A profile to which the app was added, what that told, and the wheel."""
    folder = Path(tempfile.mkdtemp(prefix="tf-", dir="/tmp"))
    usable_sandbox()
    wheel = write_wheel(folder, "shop", SOURCE)
    profile = made(folder / "p")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        try:
            told = run(profile, "apps-add", "--source", str(wheel))
            assert profile.policy_file.read_text(encoding="utf-8") == starter_text("everyday")
            yield profile, told, wheel
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def test_added_app_is_told_with_what_it_asks_and_is_granted_nothing(
    added: tuple[Profile, dict[str, Any], Path],
) -> None:
    _profile, told, wheel = added
    assert (told["app"], told["title"], told["granted"]) == ("shop", "Shop", None)
    assert told["source"] == str(wheel)
    assert {"tactful", "shop_app", "pydantic"} <= set(told["contents"])
    food, weather = told["asks"]["slots"]
    assert (food["slot"], food["fresh"], food["known"], food["granted"]) == ("food", 2, True, False)
    assert food["release"]["most"] > 0
    assert (weather["slot"], weather["known"], weather["release"]) == ("weather", False, None)
    assert told["asks"]["events"] == ({"event": "message", "granted": False},)
    assert told["asks"]["folders"] == ({"purpose": "recipes", "mode": "read"},)


def test_update_tells_what_the_app_asks_for_now_and_did_not_before_and_remove_takes_all(
    added: tuple[Profile, dict[str, Any], Path],
) -> None:
    profile, _, wheel = added
    run(profile, "apps-enable", "--app", "shop", "--slot", "food")
    shown = run(profile, "apps-show", "--app", "shop")
    assert [wish["granted"] for wish in shown["asks"]["slots"]] == [True, False]
    with pytest.raises(UsageError, match="must be a whole number"):
        run(profile, "apps-set", "--app", "shop", "--key", "people", "--value", "many")
    assert shown["settings"][0]["value"] == 2
    run(profile, "apps-set", "--app", "shop", "--key", "people", "--value", "5")
    shown = run(profile, "apps-show", "--app", "shop")
    assert shown["settings"][0]["value"] == 5
    assert run(profile, "apps-unset", "--app", "shop", "--key", "people")["value"] is None
    first = own_apps(profile.state)
    newer = write_wheel(wheel.parent, "shop", MORE, version="2.0")
    told = run(profile, "apps-update", "--app", "shop", "--source", str(newer))
    assert (told["before"], told["package_version"]) == ("1.0", "2.0")
    assert told["more"] == ("slot health", "5 fresh answers about food")
    assert told["granted"]["slots"] == ("food",)
    other = write_wheel(wheel.parent, "other", SOURCE.replace('"shop"', '"other"'))
    with pytest.raises(Unusable, match="is now the app other"):
        run(profile, "apps-update", "--app", "shop", "--source", str(other))
    assert own_apps(profile.state).keys() == first.keys()
    (profile.state / "apps" / "shop").mkdir(parents=True)
    AppTokens.load(profile.state / FILE_NAME).issue(AppId("shop"))
    told = run(profile, "apps-remove", "--app", "shop")
    assert told["kept"] == str(profile.state / "apps" / "shop")
    assert "apps.shop" in {change["key"] for change in told["changes"]}
    assert own_apps(profile.state) == {}
    assert [path.name for path in (profile.state / "venvs").iterdir()] == ["installed.json"]
    assert AppTokens.load(profile.state / FILE_NAME).apps == frozenset()
    assert "shop:" not in profile.policy_file.read_text(encoding="utf-8")


def test_granting_writes_exactly_what_the_owner_said(profile: Profile, tmp_path: Path) -> None:
    before = profile.policy_file.read_text(encoding="utf-8")
    told = run(
        profile,
        *("apps-enable", "--app", "shop", "--slot", "food", "--event", "message"),
        *("--folder", f"{tmp_path}:write"),
    )
    granted = {
        "slots": ("food",),
        "events": ("message",),
        "folders": {str(tmp_path): "write"},
        "quota": {},
    }
    assert told["granted"] == granted
    assert run(profile, "apps-enable", "--app", "shop", "--slot", "food")["granted"] == {
        **granted,
        "events": (),
        "folders": {},
    }
    assert run(profile, "apps-enable", "--app", "shop")["granted"]["slots"] == ()
    assert run(profile, "apps-disable", "--app", "shop")["granted"] is None
    assert profile.policy_file.read_text(encoding="utf-8") == before


def test_quota_and_comments_stay_when_grants_change(profile: Profile) -> None:
    text = starter_text("everyday") + (
        "  shop: # of the corner\n    slots: # what it sells\n      - food\n"
        "    quota: {diabetes: 0.5} # sweets\n"
    )
    profile.policy_file.write_text(text, encoding="utf-8")
    told = run(profile, "apps-enable", "--app", "shop", "--slot", "finance")
    assert told["granted"]["slots"] == ("finance",)
    assert told["granted"]["quota"] == {"diabetes": 0.5}
    edited = profile.policy_file.read_text(encoding="utf-8")
    assert "# of the corner" in edited
    assert "quota: {diabetes: 0.5} # sweets" in edited


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("--slot", "nowhere"), PolicyRefused),
        (("--event", "memory_written"), UsageError),
        (("--folder", "~/Recipes"), UsageError),
        (("--folder", "/nonexistent/folder:read"), Unusable),
        (("--folder", "relative:read"), PolicyRefused),
    ],
)
def test_grant_that_cannot_hold_is_refused_and_the_policy_stays(
    profile: Profile, words: tuple[str, ...], kind: type[Exception]
) -> None:
    before = profile.policy_file.read_bytes()
    with pytest.raises(kind):
        run(profile, "apps-enable", "--app", "shop", *words)
    assert profile.policy_file.read_bytes() == before


def test_folder_of_the_profile_or_below_one_that_an_app_writes_is_not_granted(
    profile: Profile, tmp_path: Path
) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    run(profile, "apps-enable", "--app", "writer", "--folder", f"{inner.parent}:write")
    for path in (inner, profile.config):
        with pytest.raises(Unusable, match="The policy was left as it is"):
            run(profile, "apps-enable", "--app", "shop", "--folder", f"{path}:read")


def test_disabling_and_removing_import_no_app(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tactfuld.apps.describing.subprocess.Popen", lambda *_: pytest.fail("ran"))
    run(profile, "apps-disable", "--app", "meals")
    with pytest.raises(NotFound, match="apps add"):
        run(profile, "apps-remove", "--app", "meals")


def test_app_that_is_not_installed_is_shown_with_its_grants_and_an_unknown_one_is_refused(
    profile: Profile,
) -> None:
    run(profile, "apps-enable", "--app", "scanner", "--slot", "food")
    told = run(profile, "apps-show", "--app", "scanner")
    assert (told["installed"], told["granted"]["slots"]) == (None, ("food",))
    with pytest.raises(NotFound):
        run(profile, "apps-show", "--app", "nobody")


def test_app_beside_the_daemon_is_shown_with_what_it_asks(profile: Profile) -> None:
    usable_sandbox()
    told = run(profile, "apps-show", "--app", "meals")
    assert told["installed"] == "beside"
    assert {wish["slot"] for wish in told["asks"]["slots"]} == {"health", "food", "finance"}
