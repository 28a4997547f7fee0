"""Reading the header of a GGUF model file, as far as it shows that the file is whole.

Decides: is this a GGUF that llama.cpp can be handed, does it end where its tensor table says, and
if it is none, what it seems to be. Not here: how much memory it takes (footprint), downloading,
hashes; what else the metadata means (llama.cpp reads it again).
Source: the GGUF specification (ggml, docs/gguf.md), versions 2 and 3, little-endian.

Invariants
- Every read is bounded by the file size and by `MAX_HEADER_BYTES`; counts are checked before use.
- Any malformed file raises `ModelError`, never anything else.
- Messages name the problem, not the contents of the file.
- Of the metadata only numbers and short texts are kept; what a file says of itself is untrusted.
"""

import os
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from tactfuld.inference.errors import ModelError

MAGIC: Final = b"GGUF"
ALIGNMENT_KEY: Final = "general.alignment"
VERSIONS: Final = (2, 3)
DEFAULT_ALIGNMENT: Final = 32
MAX_ALIGNMENT: Final = 1 << 16
MAX_HEADER_BYTES: Final = 256 << 20
MAX_TENSORS: Final = 1 << 16
MAX_ENTRIES: Final = 1 << 16
MAX_KEY_BYTES: Final = (1 << 16) - 1
MAX_DIMENSIONS: Final = 4
MAX_KEPT_TEXT: Final = 200

# Bytes of each fixed-size metadata value type, by its number in the specification.
SCALAR_BYTES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
UNSIGNED_TYPES: Final = {0, 2, 4, 10}
UINT32_TYPE: Final = 4
STRING_TYPE: Final = 8
ARRAY_TYPE: Final = 9

# (values in a block, bytes of a block) by ggml tensor type; a test compares it with llama.cpp.
TENSOR_BLOCKS: Final = {
    0: (1, 4),
    1: (1, 2),
    2: (32, 18),
    3: (32, 20),
    6: (32, 22),
    7: (32, 24),
    8: (32, 34),
    9: (32, 36),
    10: (256, 84),
    11: (256, 110),
    12: (256, 144),
    13: (256, 176),
    14: (256, 210),
    15: (256, 292),
    16: (256, 66),
    17: (256, 74),
    18: (256, 98),
    19: (256, 50),
    20: (32, 18),
    21: (256, 110),
    22: (256, 82),
    23: (256, 136),
    24: (1, 1),
    25: (1, 2),
    26: (1, 4),
    27: (1, 8),
    28: (1, 8),
    29: (256, 56),
    30: (1, 2),
    34: (256, 54),
    35: (256, 66),
    39: (32, 17),
}


# How files begin that people take for a GGUF.
FOREIGN: Final = {
    b"PK\x03\x04": "a zip archive (a PyTorch checkpoint is one)",
    b"tjgg": "a model in the old GGML format",
    b"lmgg": "a model in the old GGML format",
    b"fmgg": "a model in the old GGML format",
    b"vers": "a pointer of Git LFS instead of the model itself",
    b"\x1f\x8b": "a gzip archive",
    b"<": "a web page, perhaps an error page, instead of the model",
    b"{": "a JSON text instead of the model",
}
SAFETENSORS_HEADER: Final = 8

Value = int | str | None
"""A metadata value: a whole number, a short text, or None for what is there and not kept."""


@dataclass(frozen=True, slots=True)
class GgufLayout:
    """Where a GGUF file's parts lie, in bytes from its start, and what it says of itself."""

    version: int
    tensor_count: int
    alignment: int
    data_start: int
    data_end: int
    metadata: Mapping[str, Value]

    @property
    def architecture(self) -> str | None:
        """The family of networks that the file says it belongs to."""
        return self.text("general.architecture")

    def number(self, key: str) -> int | None:
        """The whole number under `key`; in front of it goes the architecture, as GGUF has it."""
        value = self.metadata.get(f"{self.architecture}.{key}")
        return value if isinstance(value, int) else None

    def text(self, key: str) -> str | None:
        """The short text under `key`."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else None


class _Reader:
    """Bounded little-endian reads over the head of one file."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._limit = min(size, MAX_HEADER_BYTES)
        self.position = 0

    def require(self, count: int) -> None:
        if count > self.left:
            raise ModelError("its header ends early; the file is cut short or damaged")

    @property
    def left(self) -> int:
        """Bytes of the head that were not read yet."""
        return self._limit - self.position

    def take(self, count: int) -> bytes:
        self.require(count)
        data = self._stream.read(count)
        if len(data) != count:
            raise ModelError("it became shorter while it was read")
        self.position += count
        return data

    def skip(self, count: int) -> None:
        self.require(count)
        self._stream.seek(count, os.SEEK_CUR)
        self.position += count

    def u32(self) -> int:
        (value,) = struct.unpack("<I", self.take(4))
        return int(value)

    def u64(self) -> int:
        (value,) = struct.unpack("<Q", self.take(8))
        return int(value)


def read_layout(path: Path) -> GgufLayout:
    """Parse the header of `path` and return where its tensors lie.

    Raises `ModelError` with a whole sentence for a missing, unreadable, foreign, damaged or
    truncated file. Reads metadata only, never tensor data.
    """
    try:
        size = _regular_file_size(path)
        with path.open("rb") as stream:
            layout = _parse(_Reader(stream, size))
        _refuse_truncation(layout, size)
    except ModelError as error:
        raise ModelError(
            f"The model file {path} cannot be used: {error}. "
            "Use a complete GGUF file; `tactful model list` shows what there is."
        ) from error
    except FileNotFoundError as error:
        raise ModelError(
            f"There is no model file {path}. `tactful model list` shows which models there are and "
            "which can be installed; `tactful model use` chooses one."
        ) from error
    except OSError as error:
        raise ModelError(
            f"The model file {path} cannot be read ({error.strerror or 'input/output error'}). "
            "Check the path and its permissions."
        ) from error
    return layout


def _regular_file_size(path: Path) -> int:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ModelError("it is not a regular file")
    return status.st_size


def _refuse_truncation(layout: GgufLayout, size: int) -> None:
    if layout.data_end > size:
        raise ModelError(
            f"it is cut short, {size} bytes where its tensor table needs {layout.data_end}"
        )


def _parse(reader: _Reader) -> GgufLayout:
    version = _read_preamble(reader)
    tensor_count = _read_count(reader, MAX_TENSORS, "tensors")
    entry_count = _read_count(reader, MAX_ENTRIES, "metadata entries")
    metadata = dict(_read_entry(reader) for _ in range(entry_count))
    alignment = _alignment(metadata)
    data_size = 0
    for _ in range(tensor_count):
        data_size = max(data_size, _read_tensor_end(reader, alignment))
    data_start = -(-reader.position // alignment) * alignment
    data_end = data_start + data_size
    return GgufLayout(version, tensor_count, alignment, data_start, data_end, metadata)


def _read_preamble(reader: _Reader) -> int:
    magic = reader.take(len(MAGIC))
    if magic != MAGIC:
        raise ModelError(_foreign(magic, reader))
    version = reader.u32()
    if version not in VERSIONS:
        if int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS:
            raise ModelError("it is a big-endian GGUF, which is not supported")
        raise ModelError(f"its GGUF version is {version}, and 2 or 3 was expected")
    return version


def _read_count(reader: _Reader, most: int, what: str) -> int:
    count = reader.u64()
    if count > most:
        raise ModelError(f"it claims {count} {what}, more than the {most} accepted")
    if count == 0:
        raise ModelError(f"it has no {what}")
    return count


def _foreign(magic: bytes, reader: _Reader) -> str:
    """What a file without the magic bytes seems to be."""
    for start, kind in FOREIGN.items():
        if magic.startswith(start):
            return f"it is {kind}"
    # A safetensors file begins with the length of a JSON text, then that text.
    rest = reader.take(min(SAFETENSORS_HEADER + 1 - len(magic), reader.left))
    if rest[-1:] == b"{" and len(rest) == SAFETENSORS_HEADER + 1 - len(magic):
        return "it is a safetensors file, which has to be converted to GGUF first"
    return "it does not start with the GGUF magic bytes"


def _read_entry(reader: _Reader) -> tuple[str, Value]:
    """One metadata entry: its key, and its value where that is kept."""
    key_size = reader.u64()
    if key_size > MAX_KEY_BYTES:
        raise ModelError("a metadata key is longer than the format allows")
    key = reader.take(key_size).decode("utf-8", "replace")
    kind = reader.u32()
    if key == ALIGNMENT_KEY and kind != UINT32_TYPE:
        raise ModelError("its alignment has the wrong type")
    if kind == ARRAY_TYPE:
        _skip_array(reader)
        return key, None
    if kind == STRING_TYPE:
        return key, _read_text(reader)
    data = reader.take(_scalar_bytes(kind))
    return key, int.from_bytes(data, "little") if kind in UNSIGNED_TYPES else None


def _read_text(reader: _Reader) -> str | None:
    size = reader.u64()
    if size > MAX_KEPT_TEXT:
        reader.skip(size)
        return None
    return "".join(c for c in reader.take(size).decode("utf-8", "replace") if c.isprintable())


def _alignment(metadata: Mapping[str, Value]) -> int:
    alignment = metadata.get(ALIGNMENT_KEY, DEFAULT_ALIGNMENT)
    assert isinstance(alignment, int)  # noqa: S101 - `_read_entry` let nothing else through
    if not 1 <= alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
        raise ModelError("its alignment is not a power of two in the accepted range")
    return alignment


def _skip_array(reader: _Reader) -> None:
    kind = reader.u32()
    count = reader.u64()
    if kind == ARRAY_TYPE:
        raise ModelError("it nests metadata arrays, which llama.cpp does not read")
    if kind == STRING_TYPE:
        reader.require(count * 8)
        for _ in range(count):
            reader.skip(reader.u64())
    else:
        reader.skip(count * _scalar_bytes(kind))


def _scalar_bytes(kind: int) -> int:
    try:
        return SCALAR_BYTES[kind]
    except KeyError:
        raise ModelError("a metadata entry has an unknown type") from None


def _read_tensor_end(reader: _Reader, alignment: int) -> int:
    """Read one tensor description; return where it ends within the data part."""
    name_size = reader.u64()
    if name_size > MAX_KEY_BYTES:
        raise ModelError("a tensor name is longer than the format allows")
    reader.skip(name_size)
    dimensions = reader.u32()
    if dimensions > MAX_DIMENSIONS:
        raise ModelError(f"a tensor has {dimensions} dimensions, more than {MAX_DIMENSIONS}")
    values = 1
    for _ in range(dimensions):
        values *= reader.u64()
    kind = reader.u32()
    offset = reader.u64()
    if offset % alignment:
        raise ModelError("a tensor does not start at an aligned offset")
    return offset + _tensor_bytes(kind, values)


def _tensor_bytes(kind: int, values: int) -> int:
    # A type newer than this table is judged by where it starts; llama.cpp decides the rest.
    block_values, block_bytes = TENSOR_BLOCKS.get(kind, (1, 0))
    if values % block_values:
        raise ModelError("a tensor does not fill whole blocks of its type")
    return values // block_values * block_bytes
