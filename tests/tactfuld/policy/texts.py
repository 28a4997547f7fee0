"""A small policy in which every line holds one thing, and edits of it."""

POLICY = """\
version: 1
selection: {mechanism: exponential}
allocation: {mode: online, charges_per_cap: 3}
slots:
  food:
    description: meals and groceries
    shelves:
      diet: {positions: 2, tokens: 48}
      groceries: {positions: 3, tokens: 48}
    views:
      generic: {guidance: "Suggest a simple meal."}
      cheap: {guidance: "Keep the cost low.", supports: ["I must save."], examples: ["Cheap?"]}
  news:
    description: papers
    shelves:
      seen: {positions: 1, tokens: 16, unprotected: true}
    views:
      generic: {guidance: "Name one paper."}
attributes:
  diabetes: {cap: 2.0, implied_by: [food]}
  debt:
    cap: 1.5
    implied_by:
      - food.groceries
apps:
  meals:
    slots: [food]
    quota: {debt: 1.0}
"""


def edited(old: str, new: str) -> str:
    """`POLICY` with `old`, which must occur exactly once, replaced by `new`."""
    assert POLICY.count(old) == 1, old
    return POLICY.replace(old, new)


STANDING = edited(
    "selection: {mechanism: exponential}\nallocation: {mode: online, charges_per_cap: 3}\n",
    """\
epoch: {renew: monthly, tick: "04:30"}
selection: {mechanism: randomized_response}
allocation:
  mode: standing
  candidates: 3
  releases: 2
  weights: {food: 3}
""",
).replace(
    "description: meals and groceries",
    """\
description: meals
    charge_also: [debt]
    router: {words: [dinner, pet food], never: [dog]}
    reads:
      - {when: [shopping, "What shall I buy?"], shelves: [groceries]}
      - when: [diet]
        shelves: [diet]""",
)
"""The same with every key that `POLICY` does not have."""

LATER = (
    STANDING.replace("implied_by: [food]}", "implied_by: [food], fusion: {epsilon: 8.0}}")
    .replace(
        "apps:\n",
        """\
privacy: {delta: 1.0e-5, planned_draws: 2000}
documents: {groups: {PERSON: {epsilon: 8.0}, DATE_TIME: {epsilon: 4.5}}}
apps:
""",
    )
    .replace(
        "quota: {debt: 1.0}",
        """\
quota: {debt: 1.0}
    folders: {~/Recipes: read, /srv/lists: write}
    document_groups: [PERSON]
    events: [message]""",
    )
)
"""The same with every key that this version reads and does not use."""
