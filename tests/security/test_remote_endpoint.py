"""Attack: whoever runs the remote endpoint reads all that it is sent, to learn what is remembered.

Everything is real but the endpoint's model and the one on this machine: sealed memory, ledger,
scores, gate, the owner's answers, and HTTP, of which every byte is kept.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
from tests.fakes.daemon_site import GUEST, MEALS, Site, site
from tests.fakes.recording_endpoint import RecordingEndpoint, recording_endpoint
from tests.fakes.recording_engine import RecordingEngine

from tactful.wire import Ask
from tactful_core.values import Secret
from tactfuld.gate import Gate
from tactfuld.inference.endpoint import Endpoint
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.remote import Remote, RemoteEngine
from tactfuld.owner_answers import OwnerAnswers

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

MARKER = "kumquat marmalade"
OWNERS = "What did my doctor say about quinces?"
QUERY = "What is a good dinner?"
SECRETS = (MARKER, "quinces", "My notes", "diabetes", "debt", "epsilon", "score", "position")


@pytest.fixture
def server() -> Iterator[RecordingEndpoint]:
    with recording_endpoint() as serving:
        yield serving


async def drop(_piece: str) -> None:
    """Nobody listens to the pieces."""


async def attacked(
    profile_dir: Path, server: RecordingEndpoint, kind: type[RemoteEngine] = RemoteEngine
) -> Site:
    """Fill memory, let two apps and the owner ask, and return where it happened."""
    local = RecordingEngine("Nothing of the kind.")
    endpoint = Endpoint(server.url, "big-model", lambda: None)
    async with site(profile_dir, engine=local) as at:
        for shelf in at.promises.layout.shelves:
            for number in range(len(shelf.positions)):
                await at.memory.remember(f"{MARKER} {number}", shelf.name, None, 0)
        engine = kind(local, Remote(endpoint), at.notices.replace)
        gate = Gate(
            at.gate._version,
            at.gate._ports,
            engine,
            at.history,
            at.clock,
            at.notices,
            at.gate._limits,
            at.gate._fusing,
        )
        for app, thread, query in (
            (MEALS, "one", QUERY),
            (GUEST, "one", "Is the other app's pomegranate ripe?"),
            (MEALS, "two", "Which turnip?"),
            (MEALS, "one", f"{QUERY} And for tomorrow?"),
        ):
            await gate.ask(app, Ask(query=query, slots=("food",), thread=thread), drop)
        answers = OwnerAnswers(at.memory, at.promises.layout, engine, at.embedder, 16)
        assert (await answers.answer(OWNERS, drop)).remembered == at.promises.layout.size
        assert any(at.spent().values()), "views were drawn from memory"
    return at


def found(server: RecordingEndpoint) -> list[str]:
    heard = bytes(server.received).decode("utf-8").lower()
    return [secret for secret in SECRETS if secret.lower() in heard]


async def test_no_byte_tells_of_memory_attributes_scores_or_the_owner(
    profile_dir: Path, server: RecordingEndpoint
) -> None:
    at = await attacked(profile_dir, server)
    assert found(server) == []
    assert MARKER in str(at.engine.owner_prompts[0].user), "the owner was answered from memory"
    assert at.engine.prompts == [], "no app was answered here"


async def test_what_it_is_sent_is_of_one_thread_of_one_app(
    profile_dir: Path, server: RecordingEndpoint
) -> None:
    await attacked(profile_dir, server)
    first, other_app, other_thread, second = (str(body["messages"]) for body in server.bodies())
    assert QUERY in first
    assert QUERY in second
    assert "pomegranate" in other_app
    assert QUERY not in other_app
    assert QUERY not in other_thread
    assert "pomegranate" not in second
    assert "turnip" not in second
    assert len(server.bodies()) == 4


class SendsTheOwnersPrompt(RemoteEngine):
    """A mutant: the better model answers the owner as well."""

    def generate_for_owner(
        self, prompt: Secret[Prompt], *, max_tokens: int
    ) -> AsyncGenerator[str, None]:
        return self.generate(prompt.reveal(), max_tokens=max_tokens)


async def test_the_attack_finds_memory_that_is_sent(
    profile_dir: Path, server: RecordingEndpoint
) -> None:
    await attacked(profile_dir, server, SendsTheOwnersPrompt)
    assert MARKER in found(server)
