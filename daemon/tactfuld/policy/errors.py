"""Errors of the policy package. A leaf."""

from __future__ import annotations

from tactfuld.problems import FileRefusedError


class PolicyError(FileRefusedError):
    """The policy was not accepted: the owner must change the file; nothing of it is in force."""
