"""A switchboard that keeps what apps tell each other instead of telling it."""

from dataclasses import dataclass, field

from tactful_core.values import AppId
from tactfuld.server.outlet_methods import Switchboard


@dataclass
class KeptTexts:
    """Implements `tactfuld.server.outlet_methods.Switchboard`.

    Attributes:
        pairs: who may hear whom: listener, then sender.
        texts: sender, listener and text.
        onward: asked instead, if there is one.
    """

    pairs: set[tuple[AppId, AppId]] = field(default_factory=set)
    texts: list[tuple[AppId, AppId, str]] = field(default_factory=list)
    onward: Switchboard | None = None

    def hears(self, listener: AppId, sender: AppId) -> bool:
        if self.onward is not None:
            return self.onward.hears(listener, sender)
        return (listener, sender) in self.pairs

    def send(self, sender: AppId, listener: AppId, text: str) -> None:
        if self.onward is not None:
            self.onward.send(sender, listener, text)
        self.texts.append((sender, listener, text))
