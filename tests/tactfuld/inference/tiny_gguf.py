"""Small GGUF files made for tests: whole, or wrong in one chosen way."""

import struct
from dataclasses import dataclass, field

F32 = 0


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def string_entry(key: bytes, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", 8) + text(value)


def u32_entry(key: bytes, value: int) -> bytes:
    return text(key) + struct.pack("<II", 4, value)


def array_entry(key: bytes, kind: int, count: int, items: bytes) -> bytes:
    return text(key) + struct.pack("<IIQ", 9, kind, count) + items


def tensor(name: bytes, shape: tuple[int, ...], offset: int, kind: int = F32) -> bytes:
    dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + dimensions + struct.pack("<IQ", kind, offset)


@dataclass
class TinyGguf:
    """A file with every kind of part; `data` is what follows the aligned header."""

    magic: bytes = b"GGUF"
    version: int = 3
    entries: list[bytes] = field(
        default_factory=lambda: [
            string_entry(b"general.architecture", b"nonesuch"),
            u32_entry(b"general.alignment", 64),
            array_entry(b"tokens", 8, 3, text(b"a") + text(b"") + text(b"bc")),
            array_entry(b"scores", 6, 2, b"\0" * 8),
        ]
    )
    tensors: list[bytes] = field(
        default_factory=lambda: [tensor(b"one", (4, 2), 0), tensor(b"two", (8,), 64)]
    )
    entry_count: int | None = None
    tensor_count: int | None = None
    alignment: int = 64
    data: bytes = b"\1" * 96

    def build(self) -> bytes:
        entries = len(self.entries) if self.entry_count is None else self.entry_count
        tensors = len(self.tensors) if self.tensor_count is None else self.tensor_count
        head = self.magic + struct.pack("<IQQ", self.version, tensors, entries)
        head += b"".join(self.entries) + b"".join(self.tensors)
        return head + b"\0" * (-len(head) % self.alignment) + self.data
