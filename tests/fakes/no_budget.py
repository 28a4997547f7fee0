"""The half of an asker that tests of questions do not use."""

from tactful.wire import Budget


class NoBudget:
    """For fakes of `tactful.agent.Asker` of which nobody asks what is left."""

    async def budget(self) -> Budget:
        raise AssertionError("nobody asks what is left here")

    async def quote(
        self, query: str, *, slots: tuple[str, ...] | None = None, thread: str | None = None
    ) -> Budget:
        raise AssertionError("nobody asks what is left here")
