"""Whether the names in a policy fit together, and whether each shelf is covered or unprotected.

Decides everything that needs two places of the file at once. It reads plain values, complete or
not, so that its problems are told together with those of `document`. What is *not* here: the shape
of single values (`document`).

Invariants:

- every name in `implied_by`, `charge_also`, `weights`, `slots`, `quota` and `document_groups`
  exists, and is listed once;
- no word both calls a slot and keeps it away; what a rule reads is among the slot's own shelves;
- every shelf is either covered by an attribute or says `unprotected: true`, never both;
- no quota is above the cap that it is a share of;
- what an app is told of is written only where the kind of event is;
- parts that have the wrong shape are passed over here: `document` refuses them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tactful.wire import EventKind
from tactfuld.policy.fields import MOST_DRAWS, exact_delta, exact_epsilon
from tactfuld.policy.fusion import is_reachable, smallest
from tactfuld.problems import MOST_PROBLEMS, KeyPath, closest, shown, suggestion

MOST_POSITIONS = 100_000

Misfit = tuple[KeyPath, str]
"""Where, and the sentence."""

_EVENT_KINDS = tuple(str(kind) for kind in EventKind)
KEYS_OF_EVENTS = {"timer": "timers", "app": "hears", "budget": "budget_below"}
"""The key that says which events of a kind there are, and nothing else."""


@dataclass(frozen=True, slots=True)
class _Outline:
    """The names that a policy defines.

    Attributes:
        shelves: by full name (`food.diet`), what the file says about each.
        coverable: what `implied_by` may name, slots and shelves, each with the shelves it covers.
    """

    slots: tuple[str, ...]
    shelves: Mapping[str, Mapping[str, object]]
    coverable: Mapping[str, tuple[str, ...]]
    attributes: Mapping[str, object]


def misfits(policy: object) -> Iterator[Misfit]:
    """Every place where the names of the policy do not fit together."""
    outline = _outline(policy)
    yield from _attribute_misfits(outline)
    yield from _coverage_misfits(outline)
    yield from _slot_misfits(policy, outline)
    yield from _rule_misfits(policy)
    yield from _weight_misfits(policy, outline)
    yield from _app_misfits(policy, outline)
    yield from _fusion_misfits(policy, outline)
    yield from _size_misfits(outline)


def path_of_shelf(name: str) -> KeyPath:
    """Where the shelf of that full name stands in the file."""
    slot, _, shelf = name.partition(".")
    return ("slots", slot, "shelves", shelf)


def _outline(policy: object) -> _Outline:
    shelves: dict[str, Mapping[str, object]] = {}
    coverable: dict[str, tuple[str, ...]] = {}
    for slot, content in _children(policy, "slots").items():
        own = {f"{slot}.{name}": _children(c) for name, c in _children(content, "shelves").items()}
        shelves.update(own)
        coverable[slot] = tuple(own)
        coverable.update((name, (name,)) for name in own)
    slots = tuple(_children(policy, "slots"))
    return _Outline(slots, shelves, coverable, _children(policy, "attributes"))


def _attribute_misfits(outline: _Outline) -> Iterator[Misfit]:
    for attribute, content in outline.attributes.items():
        path = ("attributes", attribute, "implied_by")
        names = list(_texts(content, "implied_by"))
        yield from _repeated(path, names)
        for index, name in names:
            if name not in outline.coverable:
                kind = "shelf" if "." in name else "slot or shelf"
                ending = suggestion(name, outline.coverable)
                yield (*path, index), f"there is no {kind} named {shown(name)}{ending}"


def _coverage_misfits(outline: _Outline) -> Iterator[Misfit]:
    coverage = _coverage(outline)
    for shelf, content in outline.shelves.items():
        unprotected = content.get("unprotected", False)
        if shelf in coverage and unprotected is True:
            attribute = shown(coverage[shelf])
            sentence = f"{shown(shelf)} says unprotected, yet {attribute} covers it; drop one."
            yield (*path_of_shelf(shelf), "unprotected"), sentence
        elif shelf not in coverage and unprotected is False:
            sentence = (
                f"no attribute covers {shown(shelf)}; name it in the implied_by of an attribute, "
                "or say unprotected: true."
            )
            yield path_of_shelf(shelf), sentence


def _coverage(outline: _Outline) -> dict[str, str]:
    """Covered shelves, each with one attribute that covers it.

    A misspelt name counts for the shelf that it suggests: it is a problem already, and telling the
    owner that the shelf is not covered would be a second one for the same slip.
    """
    coverage: dict[str, str] = {}
    misspelt = 0
    for attribute, content in outline.attributes.items():
        for _, name in _texts(content, "implied_by"):
            meant: str | None = name
            if name not in outline.coverable:
                misspelt += 1
                meant = closest(name, outline.coverable) if misspelt <= MOST_PROBLEMS else None
            for shelf in outline.coverable.get(meant or "", ()):
                coverage.setdefault(shelf, attribute)
    return coverage


def _slot_misfits(policy: object, outline: _Outline) -> Iterator[Misfit]:
    for slot, content in _children(policy, "slots").items():
        path = ("slots", slot, "charge_also")
        names = list(_texts(content, "charge_also"))
        yield from _repeated(path, names)
        if names and _is_open(content):
            yield path, "all shelves of the slot say unprotected, so nobody is charged; drop this."
        for index, name in names:
            if name not in outline.attributes:
                ending = suggestion(name, outline.attributes)
                yield (*path, index), f"there is no attribute named {shown(name)}{ending}"


def _is_open(slot: object, names: Collection[str] | None = None) -> bool:
    """Whether all these shelves of the slot, or simply all, say that they need no protection."""
    shelves = _children(slot, "shelves").items()
    return all(
        _children(shelf).get("unprotected") is True
        for name, shelf in shelves
        if names is None or name in names
    )


def _rule_misfits(policy: object) -> Iterator[Misfit]:
    """What is wrong with the words of `router` and the shelves of `reads`."""
    for slot, content in _children(policy, "slots").items():
        router = _children(content, "router")
        words = {word.casefold() for _, word in _texts(router, "words")}
        for index, word in _texts(router, "never"):
            if word.casefold() in words:
                path = ("slots", slot, "router", "never", index)
                yield path, f"{shown(word)} is among the words too; a question cannot be both."
        rules = _children(content).get("reads")
        for number, rule in enumerate(rules if isinstance(rules, tuple) else ()):
            yield from _read_misfits(("slots", slot, "reads", number), rule, content)


def _read_misfits(path: KeyPath, rule: object, slot: object) -> Iterator[Misfit]:
    names = list(_texts(rule, "shelves"))
    yield from _repeated((*path, "shelves"), names)
    shelves = _children(slot, "shelves")
    for index, name in names:
        if name not in shelves:
            ending = suggestion(name, shelves)
            yield (*path, "shelves", index), f"the slot has no shelf named {shown(name)}{ending}"
    known = [name for _, name in names if name in shelves]
    if known and any(_texts(slot, "charge_also")) and _is_open(slot, known):
        sentence = (
            "this reads only shelves that say unprotected, so charge_also would charge nobody; "
            "read a protected one too, or drop one of the two."
        )
        yield path, sentence


def _weight_misfits(policy: object, outline: _Outline) -> Iterator[Misfit]:
    for name in _children(_children(policy, "allocation"), "weights"):
        if name not in outline.slots:
            sentence = f"there is no slot named {shown(name)}{suggestion(name, outline.slots)}"
            yield ("allocation", "weights", name), sentence


def _app_misfits(policy: object, outline: _Outline) -> Iterator[Misfit]:
    for app, content in _children(policy, "apps").items():
        names = list(_texts(content, "slots"))
        yield from _repeated(("apps", app, "slots"), names)
        for index, name in names:
            if name not in outline.slots:
                sentence = f"there is no slot named {shown(name)}{suggestion(name, outline.slots)}"
                yield ("apps", app, "slots", index), sentence
        yield from _quota_misfits(("apps", app, "quota"), _children(content, "quota"), outline)
        yield from _group_misfits(policy, ("apps", app, "document_groups"), content)
        yield from _event_misfits(policy, app, content)


def _event_misfits(policy: object, app: str, content: object) -> Iterator[Misfit]:
    path = ("apps", app)
    kinds = list(_texts(content, "events"))
    yield from _repeated((*path, "events"), kinds)
    for index, name in kinds:
        if name not in _EVENT_KINDS:
            sentence = f"there is no kind of event named {shown(name)}"
            yield (*path, "events", index), f"{sentence}{suggestion(name, _EVENT_KINDS)}"
    yield from _listener_misfits(policy, app, list(_texts(content, "hears")))
    slots = [name for _, name in _texts(content, "slots")]
    for name in _children(content, "budget_below"):
        if name not in slots:
            sentence = f"the app is granted no slot named {shown(name)}{suggestion(name, slots)}"
            yield (*path, "budget_below", name), sentence
    listed = {name for _, name in kinds}
    for kind, key in KEYS_OF_EVENTS.items():
        if _children(content).get(key) and kind not in listed:
            yield (*path, key), f"nothing is told of these unless events lists {kind}; add it."


def _listener_misfits(policy: object, app: str, names: list[tuple[int, str]]) -> Iterator[Misfit]:
    path, apps = ("apps", app, "hears"), _children(policy, "apps")
    yield from _repeated(path, names)
    for index, name in names:
        if name == app:
            yield (*path, index), "an app does not hear itself; remove it."
        elif name not in apps:
            ending = suggestion(name, apps)
            yield (*path, index), f"there is no app named {shown(name)}{ending}"


def _group_misfits(policy: object, path: KeyPath, app: object) -> Iterator[Misfit]:
    groups = _children(_children(policy, "documents"), "groups")
    names = list(_texts(app, "document_groups"))
    yield from _repeated(path, names)
    for index, name in names:
        if name not in groups:
            ending = suggestion(name, groups)
            yield (*path, index), f"documents has no group named {shown(name)}{ending}"


def _fusion_misfits(policy: object, outline: _Outline) -> Iterator[Misfit]:
    """Fused text and documents have no price without `privacy`, nor below what it can reach."""
    if "privacy" in _children(policy):
        yield from _unreachable(_children(policy, "privacy"), outline)
        return
    sentence = "this needs the key privacy at the top, with delta and planned_draws; write it."
    for attribute, content in outline.attributes.items():
        if _children(content).get("fusion") is not None:
            yield ("attributes", attribute, "fusion"), sentence
    if _children(policy).get("documents") is not None:
        yield ("documents",), sentence


def _unreachable(privacy: Mapping[str, object], outline: _Outline) -> Iterator[Misfit]:
    """Epsilons of fused text that no order of divergence reaches for the planned draws."""
    draws = privacy.get("planned_draws")
    if not isinstance(draws, int) or not 1 <= draws <= MOST_DRAWS:
        return
    for attribute, content in outline.attributes.items():
        written = _children(content, "fusion").get("epsilon")
        try:
            epsilon, delta = exact_epsilon(written), exact_delta(privacy.get("delta"))
        except ValueError:
            continue  # said of its own key
        if not is_reachable(epsilon, delta, draws):
            sentence = (
                f"fused text cannot be promised at epsilon {written} with delta "
                f"{delta:e} and {draws} planned draws; the smallest that can is "
                f"{smallest(delta, draws)}. Raise epsilon, or delta."
            )
            yield ("attributes", attribute, "fusion", "epsilon"), sentence


def _quota_misfits(
    path: KeyPath, quota: Mapping[str, object], outline: _Outline
) -> Iterator[Misfit]:
    for name, share in quota.items():
        if name not in outline.attributes:
            ending = suggestion(name, outline.attributes)
            yield (*path, name), f"there is no attribute named {shown(name)}{ending}"
            continue
        cap = _children(outline.attributes[name]).get("cap")
        if _is_above(share, cap):
            sentence = (
                f"the quota {share} is above the cap {cap}, of which it is a share; lower it."
            )
            yield (*path, name), sentence


def _size_misfits(outline: _Outline) -> Iterator[Misfit]:
    counts = (content.get("positions") for content in outline.shelves.values())
    total = sum(count for count in counts if isinstance(count, int))
    if total > MOST_POSITIONS:
        sentence = f"the shelves have {total} positions together; the most is {MOST_POSITIONS}."
        yield ("slots",), sentence


def _repeated(path: KeyPath, names: Iterable[tuple[int, str]]) -> Iterator[Misfit]:
    seen: set[str] = set()
    for index, name in names:
        if name in seen:
            yield (*path, index), f"{shown(name)} is listed twice; once is enough."
        seen.add(name)


def _children(value: object, key: str | None = None) -> Mapping[str, object]:
    """The keys below `value`, or below its `key`; none if there is no mapping."""
    if key is not None:
        return _children(_children(value).get(key))
    return value if isinstance(value, dict) else {}


def _texts(value: object, key: str) -> Iterator[tuple[int, str]]:
    """The texts in the list at `key`, with their indices."""
    items = _children(value).get(key)
    if isinstance(items, tuple):
        yield from ((i, item) for i, item in enumerate(items) if isinstance(item, str))


def _is_above(share: object, cap: object) -> bool:
    try:
        return exact_epsilon(share) > exact_epsilon(cap)
    except ValueError:
        return False
