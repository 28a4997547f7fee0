"""The catalogue: models that are known to work, and where they come from.

Decides which models people are offered by name. What is *not* here: getting them (`embedded`,
`hub`), and which of them are on this machine (`installed`).

Only the embedded model's size and hash are pinned here. The others are files of the Hugging Face
hub that their publishers may replace; their size and hash are what the hub says on the day they are
fetched (docs/models.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tactfuld.models.embedded import EMBEDDED

APACHE: Final = "Apache-2.0"
LLAMA: Final = "Llama 3.2 Community License"
GEMMA: Final = "Gemma Terms of Use"
QWEN_RESEARCH: Final = "Qwen Research License"

LLAMA_TERMS: Final = "Using it accepts Meta's licence and acceptable use policy."
GEMMA_TERMS: Final = "Using it accepts Google's Gemma terms and prohibited use policy."
QWEN_TERMS: Final = "It may be used for research and evaluation, not commercially."

ANY: Final = "any computer, 1 GB memory"
SMALL: Final = "any laptop, 2 GB free"
MIDDLE: Final = "a laptop, 4 GB free"
LARGE: Final = "a fast machine or a GPU, 8 GB free"


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file in a repository of the hub."""

    repository: str
    file: str

    def __str__(self) -> str:
        return f"{self.repository}/{self.file}"


@dataclass(frozen=True, slots=True)
class Offer:
    """A model by the name that people type.

    Attributes:
        origin: the file on the hub; None for the embedded model, which comes in a wheel.
        terms: what using it accepts, beyond a free licence.
        suits: the machine it suits.
    """

    name: str
    title: str
    parameters: str
    origin: HubFile | None
    licence: str
    suits: str
    terms: str | None = None


CATALOGUE: Final = (
    Offer(EMBEDDED.name, "SmolLM2 135M Instruct", "135M", None, EMBEDDED.licence, ANY),
    Offer(
        "smollm2-360m", "SmolLM2 360M Instruct", "360M",
        HubFile("bartowski/SmolLM2-360M-Instruct-GGUF", "SmolLM2-360M-Instruct-Q4_K_M.gguf"),
        APACHE, ANY,
    ),
    Offer(
        "qwen2.5-0.5b", "Qwen2.5 0.5B Instruct", "0.5B",
        HubFile("Qwen/Qwen2.5-0.5B-Instruct-GGUF", "qwen2.5-0.5b-instruct-q4_k_m.gguf"),
        APACHE, SMALL,
    ),
    Offer(
        "gemma3-1b", "Gemma 3 1B it", "1B",
        HubFile("ggml-org/gemma-3-1b-it-GGUF", "gemma-3-1b-it-Q4_K_M.gguf"),
        GEMMA, SMALL, GEMMA_TERMS,
    ),
    Offer(
        "llama3.2-1b", "Llama 3.2 1B Instruct", "1B",
        HubFile("bartowski/Llama-3.2-1B-Instruct-GGUF", "Llama-3.2-1B-Instruct-Q4_K_M.gguf"),
        LLAMA, SMALL, LLAMA_TERMS,
    ),
    Offer(
        "qwen2.5-1.5b", "Qwen2.5 1.5B Instruct", "1.5B",
        HubFile("Qwen/Qwen2.5-1.5B-Instruct-GGUF", "qwen2.5-1.5b-instruct-q4_k_m.gguf"),
        APACHE, SMALL,
    ),
    Offer(
        "smollm2-1.7b", "SmolLM2 1.7B Instruct", "1.7B",
        HubFile("HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF", "smollm2-1.7b-instruct-q4_k_m.gguf"),
        APACHE, SMALL,
    ),
    Offer(
        "gemma2-2b", "Gemma 2 2B it", "2B",
        HubFile("bartowski/gemma-2-2b-it-GGUF", "gemma-2-2b-it-Q4_K_M.gguf"),
        GEMMA, MIDDLE, GEMMA_TERMS,
    ),
    Offer(
        "llama3.2-3b", "Llama 3.2 3B Instruct", "3B",
        HubFile("bartowski/Llama-3.2-3B-Instruct-GGUF", "Llama-3.2-3B-Instruct-Q4_K_M.gguf"),
        LLAMA, MIDDLE, LLAMA_TERMS,
    ),
    Offer(
        "qwen2.5-3b", "Qwen2.5 3B Instruct", "3B",
        HubFile("Qwen/Qwen2.5-3B-Instruct-GGUF", "qwen2.5-3b-instruct-q4_k_m.gguf"),
        QWEN_RESEARCH, MIDDLE, QWEN_TERMS,
    ),
    Offer(
        "gemma3-4b", "Gemma 3 4B it", "4B",
        HubFile("ggml-org/gemma-3-4b-it-GGUF", "gemma-3-4b-it-Q4_K_M.gguf"),
        GEMMA, MIDDLE, GEMMA_TERMS,
    ),
    Offer(
        "qwen2.5-7b", "Qwen2.5 7B Instruct", "7B",
        HubFile("bartowski/Qwen2.5-7B-Instruct-GGUF", "Qwen2.5-7B-Instruct-Q4_K_M.gguf"),
        APACHE, LARGE,
    ),
)  # fmt: skip
"""From small to large."""


def offer(name: str) -> Offer | None:
    """The model of that name, if the catalogue has it."""
    return next((found for found in CATALOGUE if found.name == name), None)


def offer_of(origin: HubFile) -> Offer | None:
    """The model that is this file of the hub, if the catalogue has it."""
    return next((found for found in CATALOGUE if found.origin == origin), None)
