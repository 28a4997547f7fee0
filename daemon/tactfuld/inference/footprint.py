"""How much memory a model takes, and whether this machine has it to spare.

Decides: the estimate (weights as the file has them, and the KV cache of every context), and that a
model which does not fit is refused before llama.cpp is asked for the memory. Not here: the header
itself (gguf); what happens if the estimate was too low (trial).

Invariants
- The estimate leaves small buffers out, and has room for as many fused answers as may be written at
  once: a model that is loaded can give every kind of answer.
- Where the machine does not tell how much memory it has free, nothing is refused.
"""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tactfuld.inference.errors import ModelError
from tactfuld.inference.gguf import GgufLayout, read_layout
from tactfuld.inference.groups import GROUP_CONTEXTS

# llama.cpp keeps keys and values as 16-bit numbers.
CACHE_BYTES: Final = 2
# Replies to apps share two contexts' worth of cells (scheduler), the owner has one.
CONTEXTS: Final = 3

MEMINFO: Final = Path("/proc/meminfo")
CGROUP: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory in bytes; `kv_cache` is that of all contexts, each of `context` tokens.

    `fused_cache` is what fused answers may take besides, and only while they are written.
    """

    weights: int
    kv_cache: int
    context: int
    fused_cache: int = 0

    @property
    def total(self) -> int:
        """Without fused answers."""
        return self.weights + self.kv_cache

    @property
    def most(self) -> int:
        """With as many fused answers as may be written at once."""
        return self.total + self.fused_cache


def preflight(path: Path, context: int) -> Footprint:
    """Raise `ModelError` unless `path` is a GGUF that can be handed to llama.cpp and fits here."""
    found = footprint(read_layout(path), context)
    refuse_unless_it_fits(path, found, available_memory())
    return found


def footprint(layout: GgufLayout, context: int) -> Footprint:
    """What a model takes with a context of so many tokens, or of as many as it was trained for."""
    tokens = min(context, layout.number("context_length") or context)
    weights = layout.data_end - layout.data_start
    cache = tokens * _cache_bytes_per_token(layout)
    return Footprint(weights, CONTEXTS * cache, tokens, GROUP_CONTEXTS * cache)


def refuse_unless_it_fits(path: Path, found: Footprint, available: int | None) -> None:
    """Raise `ModelError` if a model takes more memory than there is."""
    if available is None or found.most <= available:
        return
    raise ModelError(
        f"The model file {path} does not fit into memory: it takes {_mib(found.most)} "
        f"({_mib(found.weights)} of weights, {_mib(found.kv_cache)} for contexts of "
        f"{found.context} tokens, and {_mib(found.fused_cache)} while fused answers are written), "
        f"and {_mib(available)} are free. Close other programs, lower model.context, or use a "
        "smaller model; `tactful model list` shows some."
    )


def available_memory() -> int | None:
    """Bytes that this process can still use; None where the machine does not say."""
    if sys.platform != "linux":
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    known = [amount for amount in (_free_of_machine(), _free_of_group()) if amount is not None]
    return min(known, default=None)


def _cache_bytes_per_token(layout: GgufLayout) -> int:
    """Keys and values of one token in all layers; 0 where the file does not say."""
    layers, heads = layout.number("block_count"), layout.number("attention.head_count")
    width = layout.number("embedding_length")
    if not layers or not heads or not width:
        return 0
    head = width // heads
    key = layout.number("attention.key_length") or head
    value = layout.number("attention.value_length") or head
    kept_heads = layout.number("attention.head_count_kv") or heads
    return layers * kept_heads * (key + value) * CACHE_BYTES


def _free_of_machine() -> int | None:
    with suppress(OSError, ValueError):
        for line in MEMINFO.read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return None


def _free_of_group() -> int | None:
    """What the limit of a container leaves; file pages count as free, for they can be dropped."""
    with suppress(OSError, ValueError, KeyError):
        limit = int((CGROUP / "memory.max").read_text("ascii"))
        used = int((CGROUP / "memory.current").read_text("ascii"))
        lines = (CGROUP / "memory.stat").read_text("ascii").splitlines()
        stat = dict(line.split() for line in lines)
        return max(0, limit - used + int(stat["file"]))
    return None


def _mib(count: int) -> str:
    return f"{-(-count >> 20):,} MiB"
