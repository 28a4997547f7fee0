"""A switchboard that keeps what apps tell each other instead of telling it."""

from dataclasses import dataclass, field

from tactful_core.values import AppId


@dataclass
class KeptTexts:
    """Implements `tactfuld.server.outlet_methods.Switchboard`.

    Attributes:
        pairs: who may hear whom: listener, then sender.
        texts: sender, listener and text.
    """

    pairs: set[tuple[AppId, AppId]] = field(default_factory=set)
    texts: list[tuple[AppId, AppId, str]] = field(default_factory=list)

    def hears(self, listener: AppId, sender: AppId) -> bool:
        return (listener, sender) in self.pairs

    def send(self, sender: AppId, listener: AppId, text: str) -> None:
        self.texts.append((sender, listener, text))
