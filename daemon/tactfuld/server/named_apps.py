"""An app that the owner names: one that the policy has, or a sentence."""

from __future__ import annotations

from tactful.errors import NotFound
from tactful_core.promises import Promises
from tactful_core.values import AppId


def named_app(promises: Promises, name: str) -> AppId:
    """The app of this name.

    Raises:
        NotFound: the policy names none.
    """
    app = AppId(name)
    if promises.grant(app) is None:
        raise NotFound(
            f"The policy in force names no app {name}. Add it under 'apps' in policy.yaml; "
            "`tactful policy apply` says when a change holds."
        )
    return app
