"""The policy's JSON Schema, for editors: made from the models, shipped beside the starter policies.

Decides how the models of `document` read in JSON Schema draft-07, which is what YAML language
servers understand. What is *not* here: what is right (`loading`; the schema knows nothing of names
that stand elsewhere in the file), and where the shipped copy lies (`tactful_policies`).

    python -m tactfuld.policy.schema > policies/tactful_policies/tactful-policy.schema.json

Invariants:

- a policy that loads passes the schema: an editor marks nothing that the daemon would take;
- unknown keys are refused wherever the models refuse them.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tactfuld.policy.document import PolicyDocument

DRAFT = "http://json-schema.org/draft-07/schema#"

_DEFINITIONS = "#/$defs/"


def policy_schema() -> dict[str, Any]:
    """The schema as plain values; the same for every call."""
    schema = PolicyDocument.model_json_schema()
    definitions = schema.pop("$defs")
    named = {name: _draft_07(part) for name, part in definitions.items()}
    return {"$schema": DRAFT, "title": "tactful policy", **_draft_07(schema), "definitions": named}


def schema_text() -> str:
    """The schema as it is shipped."""
    return json.dumps(policy_schema(), indent=1, ensure_ascii=False) + "\n"


def _draft_07(schema: dict[str, Any]) -> dict[str, Any]:
    """One schema, and those in it, without what newer drafts added or draft-07 reads otherwise."""
    plain = {key: _below(key, value) for key, value in schema.items() if key != "title"}
    if "patternProperties" in plain:
        plain.setdefault("additionalProperties", False)
    if "description" in plain:
        # The rest of a docstring is for those who read the models.
        plain["description"] = plain["description"].split("\n\n")[0]
    if "$ref" in plain:
        # Whatever stands beside a $ref is ignored in draft-07.
        target = {"$ref": plain.pop("$ref").replace(_DEFINITIONS, "#/definitions/")}
        return {**plain, "allOf": [target]} if plain else target
    return plain


def _below(key: str, value: Any) -> Any:
    """What stands at `key`: a schema, several of them under names or in a list, or plain data."""
    if key in ("properties", "patternProperties"):
        return {name: _draft_07(part) for name, part in value.items()}
    if key in ("allOf", "anyOf"):
        return [_draft_07(part) for part in value]
    if key in ("items", "additionalProperties", "if", "then") and isinstance(value, dict):
        return _draft_07(value)
    return value


if __name__ == "__main__":
    sys.stdout.write(schema_text())
