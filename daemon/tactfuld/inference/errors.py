"""What can go wrong between a prompt and a reply, by who has to act.

Not here: errors of the wire, of the store or of policy.

Invariants
- A message holds names of files, settings and numbers; never a prompt, a reply or memory.
"""


class InferenceError(Exception):
    """Base of every error this package raises on purpose."""


class ModelError(InferenceError):
    """The model file or llama.cpp failed; the operator has to act on the sentence."""


class DecodeFailed(ModelError):
    """llama.cpp could not compute the next token; `code` is what `llama_decode` returned."""

    def __init__(self, code: int) -> None:
        super().__init__(
            f"llama.cpp could not continue this reply (code {code}). Ask again; if it stays, lower "
            "the context length."
        )
        self.code = code


class RemoteFailed(ModelError):
    """The remote endpoint gave no answer; `reason` is a clause that says why."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(
            f"The remote endpoint {host} gave no answer: {reason}. `remote` in settings.yaml says "
            "where answers come from; `tactful config unset remote.url` answers on this machine."
        )


class EngineLoading(InferenceError):
    """The model is being loaded; `progress` in [0, 1] says how far it is."""

    def __init__(self, progress: float) -> None:
        super().__init__(
            f"The language model is still loading, {progress:.0%}. Ask again in a moment."
        )
        self.progress = progress


class EnginePaused(InferenceError):
    """Apps are not answered while the machine runs on its battery."""

    def __init__(self) -> None:
        super().__init__(
            "The language model pauses while the machine runs on its battery. Ask again later."
        )


class EngineBusy(InferenceError):
    """The queue of waiting requests is full; ask again later."""


class EngineClosed(InferenceError):
    """The engine was closed before or during the request."""

    def __init__(self) -> None:
        super().__init__("The engine is closed. Start the daemon again to ask.")


class PromptTooLong(InferenceError):
    """Prompt and reply do not fit the context; carries numbers only.

    Attributes count tokens: `prompt_tokens`, `reply_tokens` (asked for), `context_length`.
    """

    def __init__(self, *, prompt_tokens: int, reply_tokens: int, context_length: int) -> None:
        super().__init__(
            f"The prompt has {prompt_tokens} tokens and {reply_tokens} more were asked for, but "
            f"the context holds {context_length}. Shorten the prompt or raise the context length."
        )
        self.prompt_tokens = prompt_tokens
        self.reply_tokens = reply_tokens
        self.context_length = context_length
