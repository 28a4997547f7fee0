"""Reading a policy: the one way in, for start-up and for `tactful policy check` alike.

Decides that a policy is taken as a whole or not at all, and that all its problems are told at once.
What is *not* here: what is a problem (`tactfuld.yaml_text`, `document`, `references`).
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from tactful.errors import Problem
from tactful_core.promises import Promises
from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.errors import PolicyError
from tactfuld.policy.promises import promises_of
from tactfuld.policy.references import misfits
from tactfuld.problems import MOST_PROBLEMS, FileRefusedError, first_per_key
from tactfuld.yaml_file import read_text
from tactfuld.yaml_models import validate
from tactfuld.yaml_text import YamlText, read_yaml


def load_policy(path: Path) -> Promises:
    """The promises of the policy file at `path`.

    Raises:
        PolicyError: there is no such file, it cannot be read, or it has problems.
    """
    return promises_of(load_document(path))


def load_document(path: Path) -> PolicyDocument:
    """What the policy file at `path` says.

    Raises:
        PolicyError: there is no such file, it cannot be read, or it has problems.
    """
    try:
        text = read_text(path)
    except FileNotFoundError as error:
        sentence = "there is no policy here; write one with `tactful init`, or check the path."
        raise PolicyError((Problem(str(path), 0, 0, "", sentence),)) from error
    except FileRefusedError as error:
        raise PolicyError(error.problems) from error
    return parse_document(text, source=str(path))


def parse_policy(text: str, *, source: str) -> Promises:
    """The promises of a policy text; `source` names it in problems.

    Raises:
        PolicyError: with every problem of the text, in the order of its lines.
    """
    return promises_of(parse_document(text, source=source))


def parse_document(text: str, *, source: str) -> PolicyDocument:
    """What a policy text says; `source` names it in problems.

    Raises:
        PolicyError: with every problem of the text, in the order of its lines.
    """
    yaml = read_yaml(text, source=source)
    document, problems = _checked(yaml)
    if document is None or problems:
        raise PolicyError(problems)
    return document


def _checked(yaml: YamlText) -> tuple[PolicyDocument | None, tuple[Problem, ...]]:
    if yaml.root is None:
        empty = yaml.problem((), "the policy is empty; begin with version: 1.")
        return None, yaml.problems or (empty,)
    document, problems = validate(yaml, PolicyDocument)
    names = (
        yaml.problem(path, sentence)
        for path, sentence in islice(misfits(yaml.value), MOST_PROBLEMS)
    )
    return document, first_per_key((*yaml.problems, *problems, *names))
