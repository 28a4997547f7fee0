"""The edge to llama.cpp: the only module that imports `llama_cpp`, and the only one with `Any`.

Decides: which low-level calls make a model and a context, and that llama.cpp is quiet.
Not here: threads, queues, cancellation (engine), chat templates (chat_template), preflight (gguf).

The low-level calls are used instead of `llama_cpp.Llama` on purpose: that class keeps the last
prompt in `input_ids`, reuses its prefix for the next one, redirects the whole process's standard
error while it loads, and offers no progress.

Invariants
- A `LlamaModel` is only read once it is loaded, by any thread; a `LlamaContext` is used by one.
- One `decode` is one `llama_decode`, and one micro-batch of it: which rows are computed together is
  what the caller said. The token ids handed over are overwritten afterwards.
- llama.cpp's log goes nowhere: while a model loads (nobody's text is near it then) its error lines
  are kept, and where it puts each layer; afterwards errors are only counted.
- Weights are read into memory, not mapped: what happens to the file afterwards changes nothing.
"""

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

# libgomp spins for milliseconds at each of the hundreds of barriers of a token; when other programs
# want the cores too, that costs a factor of ten. It reads this once, when llama.cpp is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "500")

import llama_cpp
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

from tactfuld.inference.errors import DecodeFailed, ModelError
from tactfuld.inference.gpu_support import gpu_support
from tactfuld.inference.offload import GpuUse, confirm, gives_layers, read_offload
from tactfuld.inference.rows import Row

# GGML_LOG_LEVEL_ERROR of ggml.h; llama-cpp-python has no name for it.
ERROR_LEVEL: Final = 4
KEPT_LINES: Final = 3
KEPT_CHARACTERS: Final = 160
PIECE_BYTES: Final = 64
TEMPLATE_BYTES: Final = 1 << 18


class _Log:
    """llama.cpp's log: while `loading`, error lines and where layers go; else errors counted."""

    def __init__(self) -> None:
        self.loading = False
        self.errors = 0
        self._lines: list[str] = []
        self._layers: list[str] = []

    def write(self, level: int, text: bytes | None) -> None:
        if self.loading and text is not None and b" assigned to device " in text:
            self._layers.append(text.decode("utf-8", "replace"))
        if level != ERROR_LEVEL:
            return
        self.errors += 1
        if self.loading and text is not None:
            line = text.decode("utf-8", "replace")[:KEPT_CHARACTERS]
            self._lines.append("".join(c for c in line if c.isprintable()).strip())

    def take_lines(self) -> str:
        lines, self._lines = self._lines[-KEPT_LINES:], []
        return "; ".join(line for line in lines if line)

    def take_layers(self) -> list[str]:
        lines, self._layers = self._layers, []
        return lines


log: Final = _Log()


# Kept at module level: llama.cpp calls it for as long as the process lives.
_on_log: Any = llama_cpp.llama_log_callback(lambda level, text, _data: log.write(level, text))
llama_cpp.llama_log_set(_on_log, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What to load and how; `context_length` and `batch` in tokens.

    `on_progress` gets 0.0..1.0 and returns whether to go on.
    """

    path: Path
    context_length: int
    batch: int
    threads: int
    on_progress: Callable[[float], bool]
    gpu: GpuUse = "auto"


class LlamaModel:
    """Loaded weights and their vocabulary. `close` frees them, after all contexts."""

    def __init__(self, request: LoadRequest) -> None:
        """Load; raises `ModelError` when llama.cpp refuses or `on_progress` stopped it."""
        self._request = request
        support = gpu_support()
        self._on_gpu: Final = gives_layers(request.gpu, support)
        self._model: Any = _load_model(request, on_gpu=self._on_gpu)
        self.offload: Final = read_offload(log.take_layers(), support)
        try:
            confirm(request.gpu, self.offload)
        except ModelError:
            self.close()
            raise
        self._vocab: Any = llama_cpp.llama_model_get_vocab(self._model)
        self.context_length: Final = _fitting_context(self._model, request)
        self.bos: Final = int(llama_cpp.llama_vocab_bos(self._vocab))
        self.adds_bos: Final = bool(llama_cpp.llama_vocab_get_add_bos(self._vocab))

    def close(self) -> None:
        """Free the model; nothing may be called afterwards."""
        llama_cpp.llama_model_free(self._model)

    @contextlib.contextmanager
    def context(
        self, *, sequences: int = 1, unified: bool = True, length: int | None = None
    ) -> Iterator["LlamaContext"]:
        """Hold a context of this model, and of no other, for the length of a block.

        Args:
            sequences: how many sequences of tokens it can hold side by side, numbered from 0.
            unified: whether they share one pool of KV cells (a token of several sequences takes
                one cell); else each has an equal part of its own.
            length: KV cells in tokens, of all sequences together; None for `context_length` of
                the pool, or of each sequence where there is none.

        Raises `ModelError` where there is no memory for it.
        """
        cells = length or self.context_length * (1 if unified else sequences)
        wanted = _ContextRequest(self._request, sequences, unified, cells)
        made: Any = _make_context(self._model, wanted, on_gpu=self._on_gpu)
        batch: Any = llama_cpp.llama_batch_init(self._request.batch, 0, sequences)
        try:
            yield LlamaContext(made, self._vocab, batch, self._request.batch, unified=unified)
        finally:
            llama_cpp.llama_batch_free(batch)
            llama_cpp.llama_free(made)

    def render_chat(self, messages: Sequence[tuple[str, str]]) -> str | None:
        """Render (role, text) pairs by the model's own chat template, up to the reply.

        None where the template refuses these roles; `ModelError` where there is no template.
        """
        template = self._chat_template()
        eos = int(llama_cpp.llama_vocab_eos(self._vocab))
        chat: Any = [{"role": role, "content": text} for role, text in messages]
        try:
            formatter = Jinja2ChatFormatter(
                template=template,
                bos_token=self._token_text(self.bos),
                eos_token=self._token_text(eos),
            )
            return formatter(messages=chat).prompt
        except Exception:  # noqa: BLE001 - the template is a program in the file and may raise anything
            return None

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token ids of `text`; control tokens are recognised only when `special`."""
        data = text.encode("utf-8", "replace")
        capacity = len(data) + 8
        tokens: Any = (llama_cpp.llama_token * capacity)()
        count = llama_cpp.llama_tokenize(
            self._vocab, data, len(data), tokens, capacity, False, special
        )
        if count < 0:
            raise ModelError("The model's tokeniser refused a text. Try another model file.")
        return list(tokens[:count])

    def is_end(self, token: int) -> bool:
        """Whether `token` ends a reply."""
        return bool(llama_cpp.llama_vocab_is_eog(self._vocab, token))

    def is_ordinary(self, token: int) -> bool:
        """Whether `token` stands for text, not for a control or user-defined mark."""
        marks = (
            llama_cpp.LLAMA_TOKEN_ATTR_CONTROL
            | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
            | llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED
        )
        return not int(llama_cpp.llama_vocab_get_attr(self._vocab, token)) & marks

    def piece(self, token: int) -> bytes:
        """The bytes of `token`; empty for control tokens, possibly part of a character."""
        size = PIECE_BYTES
        while True:
            buffer: Any = ctypes.create_string_buffer(size)
            written = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, size, 0, False)
            if written >= 0:
                return bytes(buffer.raw[:written])
            size = -written

    def _chat_template(self) -> str:
        buffer: Any = ctypes.create_string_buffer(TEMPLATE_BYTES)
        size = llama_cpp.llama_model_meta_val_str(
            self._model, b"tokenizer.chat_template", buffer, TEMPLATE_BYTES
        )
        if not 0 < size < TEMPLATE_BYTES:
            raise ModelError(
                "The model file carries no chat template. Use an instruct or chat model; "
                "`tactful model list` shows some."
            )
        return bytes(buffer.value).decode("utf-8", "replace")

    def _token_text(self, token: int) -> str:
        if token < 0:
            return ""
        text: Any = llama_cpp.llama_vocab_get_text(self._vocab, token)
        return bytes(text).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _ContextRequest:
    """How to make a context of a loaded model; `cells` in tokens."""

    load: LoadRequest
    sequences: int
    unified: bool
    cells: int


class LlamaContext:
    """Sequences of tokens and their KV cache; made by `LlamaModel.context`."""

    def __init__(self, context: Any, vocab: Any, batch: Any, rows: int, *, unified: bool) -> None:
        """Take over a llama.cpp context and a `llama_batch` with room for so many `rows`."""
        self._context: Any = context
        self._memory: Any = llama_cpp.llama_get_memory(context)
        self._rows: Any = batch
        self._asked = 0
        self._unified = unified
        self.batch: Final = rows
        self.vocabulary: Final = int(llama_cpp.llama_vocab_n_tokens(vocab))
        self.cells: Final = int(llama_cpp.llama_n_ctx(context))

    def decode(self, rows: Sequence[Row]) -> None:
        """Compute `rows`, at most `batch` of them, in one `llama_decode`.

        Raises `ModelError` if llama.cpp cannot, for one where no KV cell is free; then the
        sequences are as they were.
        """
        if not 0 < len(rows) <= self.batch:
            raise ValueError(f"{len(rows)} rows were given; 1 to {self.batch} were expected.")
        self._fill(rows)
        self._asked = 0
        code = llama_cpp.llama_decode(self._context, self._rows)
        ctypes.memset(self._rows.token, 0, len(rows) * ctypes.sizeof(llama_cpp.llama_token))
        if code != 0:
            raise DecodeFailed(int(code))
        self._asked = sum(row.logits for row in rows)

    def logits(self) -> npt.NDArray[np.float32]:
        """Logits of the rows that asked for them, in their order, of the newest `decode`.

        Shape (rows that asked, vocabulary); llama.cpp's own memory, overwritten by the next
        `decode` and gone with the context.
        """
        if self._asked == 0:
            return np.empty((0, self.vocabulary), np.float32)
        first: Any = llama_cpp.llama_get_logits(self._context)
        return np.ctypeslib.as_array(first, shape=(self._asked, self.vocabulary))

    def copy(self, source: int, target: int, end: int) -> None:
        """Let the first `end` tokens of `source` also be those of `target`, which must be empty."""
        memory = self._memory
        if self._unified:
            llama_cpp.llama_memory_seq_cp(memory, source, target, 0, end)
            return
        # Between parts of their own llama.cpp copies whole sequences only.
        llama_cpp.llama_memory_seq_cp(memory, source, target, -1, -1)
        llama_cpp.llama_memory_seq_rm(memory, target, end, -1)

    def remove(self, sequence: int, start: int = 0, end: int = -1) -> None:
        """Take the tokens at positions `start` to before `end` (-1: all) out of `sequence`.

        Their cells are free unless another sequence has them too; what they hold is overwritten
        when they are used again, or by `clear`.
        """
        if not llama_cpp.llama_memory_seq_rm(self._memory, sequence, start, end):
            raise ModelError(
                "This model keeps a state that cannot be cut. Use a model with a plain KV cache; "
                "`tactful model list` shows some."
            )

    def length(self, sequence: int) -> int:
        """Tokens that `sequence` holds."""
        return int(llama_cpp.llama_memory_seq_pos_max(self._memory, sequence)) + 1

    def clear(self, *, erase: bool) -> None:
        """Forget every token of every sequence; with `erase` also overwrite the KV cache."""
        if self._memory is not None:
            llama_cpp.llama_memory_clear(self._memory, erase)

    def _fill(self, rows: Sequence[Row]) -> None:
        batch: Any = self._rows
        batch.n_tokens = len(rows)
        for place, row in enumerate(rows):
            batch.token[place] = row.token
            batch.pos[place] = row.position
            batch.logits[place] = row.logits
            batch.n_seq_id[place] = len(row.sequences)
            for number, sequence in enumerate(row.sequences):
                batch.seq_id[place][number] = sequence


def _load_model(request: LoadRequest, *, on_gpu: bool) -> Any:
    params: Any = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = -1 if on_gpu else 0  # a negative number means all
    # A mapped file that is cut short later ends the process (SIGBUS) when a page is read.
    params.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE
    params.use_extra_bufts = not _has_amx()
    # The callback object must live until the load returns.
    callback: Any = llama_cpp.llama_progress_callback(lambda done, _data: request.on_progress(done))
    params.progress_callback = callback
    log.take_lines()
    log.take_layers()
    log.loading = True
    try:
        model: Any = llama_cpp.llama_model_load_from_file(bytes(request.path), params)
    finally:
        log.loading = False
    if not model:
        raise ModelError(
            f"llama.cpp could not load the model file {request.path} "
            f"({log.take_lines() or 'it gave no reason'}). Use a GGUF file that this "
            "llama.cpp supports; `tactful model list` shows some."
        )
    return model


def _has_amx() -> bool:
    # GCC 12 drops the stores that fill the AMX tile configuration (its `_tile_loadconfig` declares
    # 8 of the 64 bytes as read), so such a build dies of SIGILL on its first batch. Weights outside
    # the extra buffers never reach the AMX kernels.
    return b"AMX_INT8 = 1" in llama_cpp.llama_print_system_info()


def _fitting_context(model: Any, request: LoadRequest) -> int:
    # Beyond the length it was trained for a model answers with noise.
    return min(request.context_length, int(llama_cpp.llama_model_n_ctx_train(model)))


def _make_context(model: Any, request: _ContextRequest, *, on_gpu: bool) -> Any:
    params: Any = llama_cpp.llama_context_default_params()
    params.n_ctx = request.cells
    params.n_seq_max = request.sequences
    params.kv_unified = request.unified
    params.n_batch = request.load.batch
    params.n_ubatch = request.load.batch
    params.n_threads = request.load.threads
    params.n_threads_batch = request.load.threads
    # Else a llama.cpp with a GPU sends it large batches, also of layers that it was not given.
    params.offload_kqv = params.op_offload = on_gpu
    params.no_perf = True
    context: Any = llama_cpp.llama_init_from_model(model, params)
    if not context:
        raise ModelError(
            f"llama.cpp could not make a context of {request.cells} tokens. Free some "
            "memory or lower the context length."
        )
    return context
