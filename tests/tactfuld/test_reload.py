"""Changes of the owner's files while the daemon runs: real files, and whatever editors do to them.

Each test waits for the effect; the time limit of a test ends a vain wait.
"""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.fakes.daemon_site import POLICY, until

from tactful.profile import Profile
from tactfuld import reload
from tactfuld.journal import open_journal
from tactfuld.notices import Notices
from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.loading import parse_document
from tactfuld.policy_versions import versions
from tactfuld.reload import Reloading, differing, with_at_once
from tactfuld.settings import AnswerSettings, Settings, parse_settings
from tactfuld.settings_table import all_settings

DOCUMENT = parse_document(POLICY, source="policy.yaml")
GOOD = "answer: {max_tokens: 128}  # short\n"


@dataclass(slots=True)
class Watched:
    """A profile whose files are looked after."""

    profile: Profile
    reloading: Reloading
    notices: Notices
    applied: list[Settings] = field(default_factory=list)
    taken: list[PolicyDocument] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.profile.settings_file

    @property
    def max_tokens(self) -> int:
        """The most tokens of an answer that was applied last; 0 if nothing was."""
        return self.applied[-1].answer.max_tokens if self.applied else 0

    async def tells(self, words: str) -> None:
        """Returns once a notice has these words."""
        await until(lambda: any(words in sentence for sentence in self.notices.sentences))

    async def tells_nothing(self) -> None:
        await until(lambda: not self.notices.sentences)


@pytest.fixture
def profile(profile_dir: Path) -> Profile:
    made = Profile.at(profile_dir)
    made.config.mkdir(parents=True)
    made.settings_file.write_text(GOOD)
    made.policy_file.write_text(POLICY)
    return made


def reloading(profile: Profile) -> Watched:
    journal = open_journal(io.StringIO())
    notices, applied, taken = Notices(journal), list[Settings](), list[PolicyDocument]()

    async def take(document: PolicyDocument) -> str | None:
        if not taken or taken[-1] != document:
            taken.append(document)
        return "It waits." if document != DOCUMENT else None

    settings = Settings(answer=AnswerSettings(max_tokens=128))
    made = Reloading(profile, settings, applied.append, take, notices, journal)
    return Watched(profile, made, notices, applied, taken)


async def nothing_waits(_document: PolicyDocument) -> str | None:
    return None


@asynccontextmanager
async def watching(profile: Profile) -> AsyncIterator[Watched]:
    """The files are watched during the block, and have been looked at once when it begins."""
    here = reloading(profile)
    looked = asyncio.Event()
    look = here.reloading.look

    async def told() -> reload.Looked:
        found = await look()
        looked.set()
        return found

    here.reloading.look = told  # type: ignore[method-assign]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(here.reloading.run(), name="reloading")
        await looked.wait()
        yield here
        task.cancel()


# --- what editors do ----------------------------------------------------------------------------


async def test_a_file_that_is_renamed_into_place_takes_effect(profile: Profile) -> None:
    async with watching(profile) as here:
        beside = here.file.with_name(".settings.yaml.swp")
        beside.write_text("answer: {max_tokens: 7}\n")
        beside.replace(here.file)
        await until(lambda: here.max_tokens == 7)
        assert here.notices.sentences == ()


async def test_an_emptied_file_changes_nothing_until_it_is_written(profile: Profile) -> None:
    async with watching(profile) as here:
        here.file.write_text("")
        await here.tells("settings.yaml is empty or gone. What it said before stays in force.")
        assert here.applied == []
        here.file.write_text("answer: {max_tokens: 7}\n")
        await until(lambda: here.max_tokens == 7)
        await here.tells_nothing()


async def test_a_half_written_file_changes_nothing_until_it_is_whole(profile: Profile) -> None:
    async with watching(profile) as here:
        with here.file.open("w") as file:
            file.write("answer: {max_tokens: 7")
            file.flush()
            await here.tells("this is not valid YAML")
            assert here.applied == []
            file.write("}\n")
            file.flush()
            await until(lambda: here.max_tokens == 7)
        await here.tells_nothing()


async def test_a_symbolic_link_that_is_turned_takes_effect(
    profile: Profile, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(GOOD)
    second.write_text("answer: {max_tokens: 7}\n")
    profile.settings_file.unlink()
    profile.settings_file.symlink_to(first)
    async with watching(profile) as here:
        beside = here.file.with_name("new")
        beside.symlink_to(second)
        beside.replace(here.file)
        await until(lambda: here.max_tokens == 7)


async def test_a_file_that_a_symbolic_link_names_is_watched_where_it_is(
    profile: Profile, tmp_path: Path
) -> None:
    target = tmp_path / "dotfiles.yaml"
    target.write_text(GOOD)
    profile.settings_file.unlink()
    profile.settings_file.symlink_to(target)
    async with watching(profile) as here:
        target.write_text("answer: {max_tokens: 7}\n")
        await until(lambda: here.max_tokens == 7)


async def test_a_deleted_file_changes_nothing_until_it_is_back(profile: Profile) -> None:
    async with watching(profile) as here:
        here.file.unlink()
        await here.tells("settings.yaml is empty or gone.")
        assert here.applied == []
        here.file.write_text("answer: {max_tokens: 7}\n")
        await until(lambda: here.max_tokens == 7)
        await here.tells_nothing()


async def test_a_folder_that_cannot_be_watched_is_looked_at_by_the_clock(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "PERIOD", 0.02)
    away = profile.config.with_name("away")
    async with watching(profile) as here:
        profile.config.rename(away)
        await here.tells("settings.yaml is empty or gone.")
        (away / "settings.yaml").write_text("answer: {max_tokens: 7}\n")
        away.rename(profile.config)
        await until(lambda: here.max_tokens == 7)


async def test_a_folder_that_is_not_there_is_looked_for_by_the_clock(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "PERIOD", 0.02)
    away = profile.config.with_name("away")
    profile.config.rename(away)
    async with watching(profile) as here:
        await here.tells("settings.yaml is empty or gone.")
        (away / "settings.yaml").write_text("answer: {max_tokens: 7}\n")
        away.rename(profile.config)
        await until(lambda: here.max_tokens == 7)


# --- what takes effect --------------------------------------------------------------------------


async def test_settings_of_the_next_start_are_told_and_not_applied(profile: Profile) -> None:
    here = reloading(profile)
    here.file.write_text("model: {context: 4096}\ngpu: off\nanswer: {max_tokens: 7}\n")
    looked = await here.reloading.look()
    assert looked.waiting == ("gpu", "model.context")
    assert list(here.notices.sentences) == [
        "Settings that wait for the next start: gpu, model.context."
    ]
    assert (here.applied[-1].model.context, here.applied[-1].gpu) == (2048, "auto")
    assert here.max_tokens == 7
    here.file.write_text(GOOD)
    assert list((await here.reloading.look()).waiting) == []
    assert list(here.notices.sentences) == []
    assert here.max_tokens == 128


async def test_no_change_of_the_sandbox_is_applied(profile: Profile) -> None:
    here = reloading(profile)
    here.file.write_text(f"sandbox: off\n{GOOD}logging: {{level: debug}}\n")
    assert (await here.reloading.look()).waiting == ("sandbox",)
    assert (here.applied[-1].sandbox, here.applied[-1].logging.level) == ("required", "debug")


async def test_a_file_that_says_the_same_is_not_applied_again(profile: Profile) -> None:
    here = reloading(profile)
    here.file.write_text(f"# a word\n{GOOD}")
    looked = await here.reloading.look()
    assert (looked.waiting, looked.settings_problem, here.applied) == ((), None, [])


async def test_a_wrong_file_is_told_with_line_and_key(profile: Profile) -> None:
    here = reloading(profile)
    here.file.write_text("# c\nanswer: {max_tokns: 7}\nturn: {deadline_ms: 0}\n")
    problem = (await here.reloading.look()).settings_problem
    assert problem is not None
    assert "settings.yaml:2: answer.max_tokns: there is no key named max_tokns here; did you" in (
        problem
    )
    assert problem.endswith("(And 1 more.)")
    assert here.notices.sentences == (problem,)
    assert here.applied == []


async def test_a_file_that_was_never_there_is_not_missed(profile: Profile) -> None:
    profile.settings_file.unlink()
    here = reloading(profile)
    defaults = Reloading(
        profile, Settings(), here.applied.append, nothing_waits, here.notices,
        open_journal(io.StringIO()),
    )  # fmt: skip
    assert (await defaults.look()).settings_problem is None
    assert here.notices.sentences == ()


@pytest.mark.parametrize("content", [b"a: \xff\n", b"\t\n", None])
async def test_an_unreadable_file_changes_nothing(profile: Profile, content: bytes | None) -> None:
    here = reloading(profile)
    if content is None:
        here.file.unlink()
        here.file.mkdir()
    else:
        here.file.write_bytes(content)
    assert (await here.reloading.look()).settings_problem is not None
    assert here.applied == []


# --- the policy ---------------------------------------------------------------------------------

CHANGED = POLICY.replace("meals:", "dinners:")
CHANGED_DOCUMENT = parse_document(CHANGED, source="policy.yaml")


async def test_a_policy_that_is_in_order_is_handed_over_with_what_is_said_of_it(
    profile: Profile,
) -> None:
    here = reloading(profile)
    profile.policy_file.write_text(POLICY + "\n# a comment\n")
    looked = await here.reloading.look()
    assert (looked.policy_problem, looked.policy_waits) == (None, None)
    profile.policy_file.write_text(CHANGED)
    looked = await here.reloading.look()
    assert (looked.policy_problem, looked.policy_waits) == (None, "It waits.")
    assert here.taken == [DOCUMENT, CHANGED_DOCUMENT]
    assert here.notices.sentences == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (POLICY + "kumquat: 1\n", "there is no key named kumquat here"),
        (POLICY.replace("cap: 2.0", "cap: high"), "expected a number"),
        (POLICY[:400], "policy.yaml"),
        ("", "the policy is empty"),
        ("# nothing\n", "the policy is empty"),
        (None, "there is no policy here"),
    ],
)
async def test_a_policy_with_problems_is_not_handed_over_but_told(
    profile: Profile, text: str | None, told: str
) -> None:
    here = reloading(profile)
    if text is None:
        profile.policy_file.unlink()
    else:
        profile.policy_file.write_text(text)
    looked = await here.reloading.look()
    assert looked.policy_problem is not None
    assert told in looked.policy_problem
    assert "The policy in force stays as it is." in looked.policy_problem
    assert list(here.notices.sentences) == [looked.policy_problem]
    assert list(here.taken) == []
    profile.policy_file.write_text(POLICY)
    assert (await here.reloading.look()).policy_problem is None
    assert list(here.notices.sentences) == []
    assert here.taken == [DOCUMENT]


async def test_problems_of_the_policy_have_file_line_and_key(profile: Profile) -> None:
    here = reloading(profile)
    lines = POLICY.splitlines()
    number = next(n for n, line in enumerate(lines, 1) if line.startswith("apps:"))
    lines.insert(number, "  rude: {slot: [food]}")
    profile.policy_file.write_text("\n".join(lines))
    problem = (await here.reloading.look()).policy_problem
    assert problem is not None
    assert f"policy.yaml:{number + 1}: apps.rude.slot: there is no key named slot" in problem


async def test_a_policy_that_is_renamed_into_place_is_handed_over(profile: Profile) -> None:
    async with watching(profile) as here:
        beside = profile.policy_file.with_name("4913~")
        beside.write_text(CHANGED)
        beside.replace(profile.policy_file)
        await until(lambda: here.taken[-1] == CHANGED_DOCUMENT)


async def test_a_policy_whose_symbolic_link_is_turned_is_handed_over(
    profile: Profile, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(POLICY)
    second.write_text(CHANGED)
    profile.policy_file.unlink()
    profile.policy_file.symlink_to(first)
    async with watching(profile) as here:
        beside = profile.policy_file.with_name("new")
        beside.symlink_to(second)
        beside.replace(profile.policy_file)
        await until(lambda: here.taken[-1] == CHANGED_DOCUMENT)


async def test_a_deleted_policy_is_told_and_its_return_is_seen(profile: Profile) -> None:
    async with watching(profile) as here:
        profile.policy_file.unlink()
        await here.tells("there is no policy here")
        profile.policy_file.write_text(CHANGED)
        await here.tells_nothing()
        await until(lambda: here.taken[-1] == CHANGED_DOCUMENT)
        assert here.taken == [DOCUMENT, CHANGED_DOCUMENT]


async def test_a_file_is_left_alone_until_it_has_been_the_same_for_a_while(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = reloading(profile)
    await here.reloading.look()
    signs = iter([((1,),), ((2,),), ((3,),), ((3,),), ((3,),)])
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(here.reloading, "_signs", lambda: next(signs))
    monkeypatch.setattr(asyncio, "sleep", wait)
    assert await here.reloading._changed()
    assert waits == [reload.SETTLED] * 3
    assert reload.SETTLED > 0


async def test_the_half_of_a_policy_that_is_one_is_not_handed_over(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Truncated and written in two pieces, of which the first is a policy without apps."""
    monkeypatch.setattr(reload, "SETTLED", 2.0)
    half = CHANGED[: CHANGED.index("apps:")]
    assert (await asyncio.to_thread(parse_document, half, source="half")).apps == {}
    async with watching(profile) as here:
        seen = asyncio.Event()
        signs = here.reloading._signs

        def noticed() -> tuple[tuple[int, ...], ...]:
            found = signs()
            if profile.policy_file.stat().st_size == len(half.encode()):
                loop.call_soon_threadsafe(seen.set)
            return found

        loop = asyncio.get_running_loop()
        here.reloading._signs = noticed  # type: ignore[method-assign]
        with profile.policy_file.open("w") as file:
            file.write(half)
            file.flush()
            await seen.wait()
            file.write(CHANGED[len(half) :])
        await until(lambda: here.taken[-1] == CHANGED_DOCUMENT)
        assert here.taken == [DOCUMENT, CHANGED_DOCUMENT]


# --- small decisions ----------------------------------------------------------------------------


def test_only_public_constants_and_the_log_take_effect_at_once() -> None:
    assert {setting.key for setting in all_settings() if setting.at_once} == {
        "logging.level", "turn.deadline_ms", "answer.max_tokens", "answer.memory_tokens",
        "history.turns", "history.days", "model.idle_unload", "model.pause_on_battery",
        "notices.desktop", "remote.url", "remote.consent", "remote.model", "remote.key",
        "remote.seconds",
    }  # fmt: skip


def test_settings_at_once_are_those_written_and_the_others_those_in_force() -> None:
    written = parse_settings(
        "sandbox: off\nturn: {deadline_ms: 9}\nmodel: {use: /m.gguf}\n", source=""
    )
    merged = with_at_once(Settings(), written)
    assert differing(merged, Settings()) == ("turn.deadline_ms",)
    assert differing(written, merged) == ("sandbox", "model.use")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_that_may_not_be_read_changes_nothing(profile: Profile) -> None:
    here = reloading(profile)
    here.file.chmod(0)
    assert "cannot be read" in str((await here.reloading.look()).settings_problem)


# --- versions -----------------------------------------------------------------------------------


async def test_a_policy_that_is_taken_over_is_kept_to_go_back_to(profile: Profile) -> None:
    async with watching(profile) as here:
        profile.policy_file.write_text(f"{POLICY}# mine\n")
        await here.reloading.look()
        profile.policy_file.write_text("version: 2\n")
        await here.reloading.look()
    kept = await asyncio.to_thread(
        lambda: [version.file.read_text() for version in versions(profile)]
    )
    assert kept == [POLICY, f"{POLICY}# mine\n"]


async def test_a_policy_that_cannot_be_kept_is_taken_over_all_the_same(profile: Profile) -> None:
    profile.state.parent.mkdir(parents=True, exist_ok=True)
    profile.state.write_text("no folder")
    here = reloading(profile)
    looked = await here.reloading.look()
    assert looked.policy_problem is None
    assert here.taken == [DOCUMENT]
