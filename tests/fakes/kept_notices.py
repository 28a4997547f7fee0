"""`OwnerNotices` that keeps what the owner would be told."""

from tactful_core.values import SlotName


class KeptNotices:
    def __init__(self) -> None:
        self.failed_slots: list[SlotName] = []

    def scoring_failed(self, slot: SlotName) -> None:
        self.failed_slots.append(slot)
