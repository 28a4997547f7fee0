"""The part of an asker that tests of questions do not use."""

from tactful.wire import Budget, Vocabulary


class NoBudget:
    """For fakes of `tactful.agent.Asker` that are asked questions, and nothing else."""

    async def budget(self) -> Budget:
        raise AssertionError("nobody asks what is left here")

    async def quote(
        self, query: str, *, slots: tuple[str, ...] | None = None, thread: str | None = None
    ) -> Budget:
        raise AssertionError("nobody asks what is left here")

    async def vocabulary(self) -> Vocabulary:
        raise AssertionError("nobody asks for views here")

    async def notify(self, text: str, title: str = "") -> None:
        raise AssertionError("nobody tells the owner anything here")

    async def propose(self, text: str, slot: str) -> None:
        raise AssertionError("nobody proposes anything here")

    async def send(self, app: str, text: str) -> None:
        raise AssertionError("nobody tells an app anything here")
