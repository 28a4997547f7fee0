"""What goes wrong with the model while an app is answered, as the errors that a connection knows.

Decides the sentences, which are the same for every app and tell nothing of a model but its state.
What is *not* here: the same for the owner (`owner_answers`), who is told more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tactful.errors import Busy, InvalidParams, ModelFailed, NotReady, ShuttingDown
from tactfuld.inference.errors import (
    EngineBusy,
    EngineClosed,
    EngineLoading,
    EnginePaused,
    ModelError,
    PromptTooLong,
)


@contextmanager
def named_errors() -> Iterator[None]:
    """Errors of the engine within the block become the app's."""
    try:
        yield
    except EngineBusy as error:
        raise Busy("Too many questions wait for the language model. Ask again later.") from error
    except (EngineLoading, EnginePaused) as error:
        raise NotReady(str(error)) from error
    except EngineClosed as error:
        raise ShuttingDown("The daemon is stopping.") from error
    except PromptTooLong as error:
        raise InvalidParams(
            "The question does not fit the language model's context. Ask a shorter one."
        ) from error
    except ModelError as error:
        raise ModelFailed(
            "The language model could not answer. The owner must look at it."
        ) from error
