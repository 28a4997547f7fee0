"""Answers of a real model to real prompts, each written once and kept.

Decides how an answer is written (the daemon's own template, sampling and reply code, with a fixed
seed) and under which key it is kept. What is *not* here: which questions (`view_questions`), what
answers come to (`answer_rates`).

Invariants:

- an answer is a function of model file, prompt, sampling, limit and seed (on one machine), and its
  key is a hash of all of them: whatever changes is written anew;
- a run that is stopped has kept every answer that it finished.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tactfuld.inference import generation
from tactfuld.inference.chat_template import ChatTemplate, read_chat_template
from tactfuld.inference.engine import BATCH, available_cores
from tactfuld.inference.footprint import preflight
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.sampling import Sampling
from tactfuld.settings import Settings

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaContext, LlamaModel

CONTEXT: Final = 1024


@dataclass(frozen=True, slots=True)
class Writer:
    """One loaded model that answers as the daemon would, from a given seed."""

    model: LlamaModel
    context: LlamaContext
    template: ChatTemplate
    fingerprint: str
    sampling: Sampling
    max_tokens: int

    def write(self, prompt: Prompt, seed: int) -> str:
        """The answer to `prompt`."""
        model, most = self.model, self.max_tokens
        encoded = generation.encode(model, self.template, prompt, most)
        pieces = generation.reply(model, self.context, encoded, most, self.sampling, seed)
        return "".join(pieces).strip()

    def key(self, prompt: Prompt, seed: int) -> str:
        """What the answer to `prompt` depends on, hashed."""
        parts = [
            self.fingerprint,
            prompt.system,
            prompt.user,
            prompt.opening,
            seed,
            self.max_tokens,
        ]
        text = json.dumps([*parts, asdict(self.sampling)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def open_writer(path: Path, threads: int | None = None) -> Iterator[Writer]:
    """Hold the model at `path` with the daemon's default sampling and length of answers."""
    preflight(path, CONTEXT)
    from tactfuld.inference.llama_api import LlamaModel, LoadRequest

    model = LlamaModel(
        LoadRequest(
            path=path,
            context_length=CONTEXT,
            batch=BATCH,
            threads=threads or available_cores(),
            on_progress=lambda _done: True,
        )
    )
    try:
        with path.open("rb") as stream:
            fingerprint = hashlib.file_digest(stream, "sha256").hexdigest()
        limit = Settings().answer.max_tokens
        with model.context() as context:
            template = read_chat_template(model)
            yield Writer(model, context, template, fingerprint, Sampling(), limit)
    finally:
        model.close()


class KeptAnswers:
    """Answers by key, in a file of JSON lines that only grows; in memory without a file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._answers: dict[str, str] = {}
        if path is not None and path.exists():
            for line in path.read_text("utf-8").splitlines():
                record = json.loads(line)
                self._answers[record["key"]] = record["answer"]

    def answer(self, writer: Writer, prompt: Prompt, seed: int) -> str:
        """The kept answer to `prompt`, or a new one, which is kept."""
        key = writer.key(prompt, seed)
        if key not in self._answers:
            self._answers[key] = writer.write(prompt, seed)
            self._append({"key": key, "user": prompt.user, "answer": self._answers[key]})
        return self._answers[key]

    def _append(self, record: dict[str, str]) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
