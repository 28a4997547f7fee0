"""What an edit of the policy changes when: nothing is looser before a new epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tactfuld.policy.variants import BASE, DOCUMENTS, all_of, edits, policies, policy

from tactful_core.entries import Charge, EpochOpened, new_entry_id
from tactful_core.layout import Slot
from tactful_core.ledger import Ledger, refusal, replay
from tactful_core.promises import Promises
from tactful_core.values import AppId, AttributeName, Units
from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.loading import parse_document
from tactfuld.policy.promises import digest_of, promises_of
from tactfuld.policy.record import text_of
from tactfuld.policy.staging import (
    differing,
    narrowed,
    rehoused,
    renewed,
    shelves_of,
    tightened,
)

Way = Callable[[PolicyDocument, PolicyDocument], PolicyDocument]

EDITS = list(edits())
SEEN_OPEN = {"seen": ", unprotected: true", "implied": "[food]"}


def looser(after: Promises, before: Promises) -> list[str]:
    """In what `after` promises less than `before`, by what each promises alone."""
    return [
        *(f"attribute {a.name}" for a in before.layout.attributes if not _kept(after, a.name)),
        *(
            f"cap or group of {a.name}"
            for a in before.layout.attributes
            if _kept(after, a.name)
            and (
                after.layout.attribute(a.name).cap > a.cap
                or not after.layout.attribute(a.name).positions >= a.positions
            )
        ),
        *(
            f"fused text of {a.name}"
            for a in before.layout.attributes
            if _kept(after, a.name) and _fused(after, a.name) > _fused(before, a.name)
        ),
        *(["delta"] if _delta(after) > _delta(before) else []),
        *(
            f"price or charge set of {slot.name}"
            for slot in before.layout.slots
            if not before.charge_set(slot) <= after.charge_set(after.layout.slot(slot.name))
            or (before.charge_set(slot) and _price(after, slot) > _price(before, slot))
        ),
        *(
            f"unprotected {shelf.name}"
            for shelf, was in zip(after.layout.shelves, before.layout.shelves, strict=True)
            if shelf.unprotected and not was.unprotected
        ),
        *(
            f"views of {slot.name}"
            for slot in before.layout.slots
            if after.layout.slot(slot.name).vocabulary != slot.vocabulary
        ),
        *(["mechanism"] if after.mechanism != before.mechanism else []),
        *(["allocation"] if type(after.allocation) is not type(before.allocation) else []),
        *(["epochs"] if _often(after) > _often(before) else []),
    ]


def _kept(promises: Promises, name: AttributeName) -> bool:
    return name in {attribute.name for attribute in promises.layout.attributes}


def _fused(promises: Promises, name: AttributeName) -> Units:
    return promises.layout.attribute(name).fusion or Units(0)


def _delta(promises: Promises) -> Fraction:
    """The worst is no delta at all, so that nothing of what it would be for is promised."""
    return Fraction(1) if promises.privacy is None else promises.privacy.delta


def _price(promises: Promises, slot: Slot) -> Units:
    return promises.epsilon(promises.layout.slot(slot.name))


def _often(promises: Promises) -> int:
    return ["manual", "monthly", "weekly"].index(promises.epochs.renewal.value)


def granted(promises: Promises) -> set[tuple[str, str]]:
    return {(grant.app, slot) for grant in promises.grants for slot in grant.slots}


def read_again(document: PolicyDocument) -> PolicyDocument:
    """As the record keeps it; refused where the loader would refuse it."""
    again = parse_document(text_of(document), source="record")
    assert again == document
    assert digest_of(again) == digest_of(document)
    return again


# --- every pair of edits ------------------------------------------------------------------------


def test_there_are_hundreds_of_edits() -> None:
    assert len(EDITS) > 400


@pytest.mark.parametrize("way", [narrowed, tightened])
def test_no_pair_of_edits_loosens_anything_within_the_epoch(way: Way) -> None:
    """In both directions: from what is there to the edit, and from the edit to what is there."""
    for parts, wanted in EDITS:
        for in_force, written in ((BASE, wanted), (wanted, BASE)):
            after = promises_of(way(in_force, written))
            assert looser(after, promises_of(in_force)) == [], parts


def test_what_is_composed_of_two_policies_is_one_that_the_daemon_would_accept() -> None:
    for _, wanted in EDITS:
        read_again(tightened(wanted, BASE))


def test_what_is_taken_away_from_apps_is_gone_at_once_and_nothing_else() -> None:
    for parts, wanted in EDITS:
        for in_force, written in ((BASE, wanted), (wanted, BASE)):
            after = promises_of(narrowed(in_force, written))
            both = granted(promises_of(in_force)) & granted(promises_of(written))
            assert granted(after) == both, parts
            assert all(
                key.startswith("apps") for key in differing(in_force, narrowed(in_force, written))
            )


def test_grants_are_those_written_from_the_tick_on() -> None:
    for parts, wanted in EDITS:
        if shelves_of(wanted) == shelves_of(BASE):
            after = promises_of(tightened(BASE, wanted))
            assert granted(after) == granted(promises_of(wanted)), parts


def test_each_cap_and_group_is_the_tighter_of_both_from_the_tick_on() -> None:
    for parts, wanted in EDITS:
        if shelves_of(wanted) != shelves_of(BASE):
            continue
        after, before, new = (
            promises_of(d).layout for d in (tightened(BASE, wanted), BASE, wanted)
        )
        for attribute in after.attributes:
            sides = [
                each
                for layout in (before, new)
                for each in layout.attributes
                if each.name == attribute.name
            ]
            assert attribute.cap == min(each.cap for each in sides), parts
            union = frozenset[int]().union(*(each.positions for each in sides))
            assert attribute.positions == union, parts


def test_a_new_epoch_takes_all_of_it_unless_shelves_are_others() -> None:
    for parts, wanted in EDITS:
        same = shelves_of(wanted) == shelves_of(BASE)
        expected = wanted if same else narrowed(BASE, wanted)
        assert renewed(BASE, wanted) == expected, parts


def test_the_policy_in_force_changes_nothing() -> None:
    for parts, document in EDITS:
        for way in (narrowed, tightened, renewed, rehoused):
            assert way(document, document) == document, parts
            assert digest_of(way(document, document)) == digest_of(document), parts


def test_other_shelves_change_nothing_but_what_apps_lose() -> None:
    wanted = policy(positions="3", diabetes="1.0", meals="")
    assert tightened(BASE, wanted) == narrowed(BASE, wanted)
    assert differing(BASE, tightened(BASE, wanted)) == ("apps.meals",)


# --- single parts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "at_tick", "in_epoch"),
    [
        ({"diabetes": "1.0"}, ("attributes.diabetes.cap",), ()),
        ({"diabetes": "3.0"}, (), ("attributes.diabetes.cap",)),
        ({"implied": "[food.diet, news]"}, ("attributes.diabetes.implied_by",),
         ("attributes.diabetes.implied_by",)),
        ({"also": "[debt]"}, ("slots.food.charge_also",), ()),
        ({"debt": ""}, (), ("attributes.debt",)),
        ({"debt": "job: {cap: 1.0, implied_by: [news]}"}, ("attributes.job",),
         ("attributes.debt",)),
        (SEEN_OPEN, (), ("slots.news.shelves.seen.unprotected", "attributes.diabetes.implied_by")),
        ({"renew": "manual"}, ("epoch.renew",), ()),
        ({"renew": "weekly"}, (), ("epoch.renew",)),
        ({"tick": "04:30"}, ("epoch.tick",), ()),
        ({"guidance": "Keep it cheap."}, (), ("slots.food.views.cheap.guidance",)),
        ({"mechanism": "randomized_response"}, (), ("selection.mechanism",)),
        ({"allocation": "mode: online, charges_per_cap: 2"}, (), ("allocation.charges_per_cap",)),
        ({"guest": "guest: {slots: [food]}"}, ("apps.guest",), ()),
        ({"meals": "meals: {slots: [food], quota: {diabetes: 2.0}}"},
         ("apps.meals.quota.diabetes",), ()),
    ],
)  # fmt: skip
def test_parts_hold_when_the_table_says(
    parts: dict[str, str], at_tick: tuple[str, ...], in_epoch: tuple[str, ...]
) -> None:
    wanted = policy(**parts)
    from_tick = tightened(BASE, wanted)
    assert narrowed(BASE, wanted) == BASE
    assert differing(BASE, from_tick) == at_tick
    assert set(differing(from_tick, wanted)) == set(in_epoch)


def test_a_quota_that_is_above_a_cap_that_stays_low_is_cut_to_it() -> None:
    wanted = policy(diabetes="3.0", meals="meals: {slots: [food], quota: {diabetes: 2.5}}")
    (grant,) = promises_of(tightened(BASE, wanted)).grants
    assert grant.quota == {
        "diabetes": promises_of(BASE).layout.attribute(AttributeName("diabetes")).cap
    }


def test_quotas_of_an_attribute_that_is_still_protected_stay() -> None:
    before = policy(meals="meals: {slots: [food], quota: {debt: 1.0}}")
    wanted = policy(debt="", meals="meals: {slots: [food]}")
    (grant,) = promises_of(tightened(before, wanted)).grants
    assert list(grant.quota) == ["debt"]


# --- memory that moved to other shelves ---------------------------------------------------------


def test_what_moves_house_is_as_tightly_promised_as_before() -> None:
    moved = policy(positions="3", diabetes="3.0", implied="[food.diet, news]", also="[debt]")
    after = read_again(rehoused(BASE, moved))
    assert shelves_of(after) == shelves_of(moved)
    names = {a.name: a for a in promises_of(after).layout.attributes}
    before = promises_of(BASE).layout
    for attribute in before.attributes:
        assert names[attribute.name].cap <= attribute.cap
        covered = {s.name for s in before.shelves if attribute.positions.issuperset(s.positions)}
        still = {
            s.name
            for s in promises_of(after).layout.shelves
            if names[attribute.name].positions.issuperset(s.positions)
        }
        assert covered <= still


@given(policies(), policies())
@settings(max_examples=50)
def test_whatever_moves_house_is_accepted(before: PolicyDocument, after: PolicyDocument) -> None:
    read_again(rehoused(before, after))


# --- a whole epoch ------------------------------------------------------------------------------


@dataclass
class Epoch:
    """A ledger under policies that change; caps that were in force, by attribute."""

    in_force: PolicyDocument
    ledger: Ledger = field(default_factory=lambda: replay([EpochOpened(new_entry_id(), 1, 0)]))
    caps: dict[AttributeName, Units] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.note()

    def note(self) -> None:
        for a in promises_of(self.in_force).layout.attributes:
            self.caps[a.name] = min(a.cap, self.caps.get(a.name, a.cap))

    def change(self, after: PolicyDocument) -> None:
        assert looser(promises_of(after), promises_of(self.in_force)) == []
        self.in_force = after
        self.note()

    def ask(self, app: AppId, units: int) -> bool:
        """One charge for food, if the app may ask and it is admitted."""
        promises = promises_of(self.in_force)
        slot = promises.layout.slots[0]
        grant = promises.grant(app)
        if grant is None or slot.name not in grant.slots:
            return False
        charge = Charge(
            new_entry_id(), 1, app, slot.name, promises.mechanism, frozenset(slot.positions),
            promises.charge_set(slot), Units(units), promises.digest,
        )  # fmt: skip
        if refusal(self.ledger, charge, promises) is not None:
            return False
        self.ledger = self.ledger.after(charge)
        for name in charge.charged:
            attribute = promises.layout.attribute(name)
            assert self.ledger.spent(attribute) <= self.caps[name]
        return True


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), policies()),
        st.tuples(st.just("tick"), st.none()),
        st.tuples(st.sampled_from(["meals", "guest"]), st.sampled_from([3, 7, 12, 20])),
    ),
    min_size=1,
    max_size=12,
)


@given(st.one_of(st.just(BASE), policies()), STEPS)
@settings(max_examples=50)
def test_no_sequence_of_edits_and_ticks_spends_more_than_the_smallest_cap_of_the_epoch(
    first: PolicyDocument, steps: list[tuple[str, object]]
) -> None:
    epoch, written = Epoch(first), first
    for what, value in steps:
        if what == "write":
            assert isinstance(value, PolicyDocument)
            written = value
            epoch.change(narrowed(epoch.in_force, written))
        elif what == "tick":
            epoch.change(tightened(epoch.in_force, written))
        else:
            assert isinstance(value, int)
            epoch.ask(AppId(what), value * 72_072_000)


def test_what_was_read_counts_for_an_attribute_that_appears_at_a_tick() -> None:
    """Mutant: tightening without recomputation."""
    epoch = Epoch(policy(debt=""))
    assert epoch.ask(AppId("meals"), 720_720_000)
    wanted = policy(debt="job: {cap: 1.0, implied_by: [news, food.groceries]}")
    epoch.change(tightened(epoch.in_force, wanted))
    job = promises_of(epoch.in_force).layout.attribute(AttributeName("job"))
    assert epoch.ledger.spent(job) == 720_720_000
    assert not epoch.ask(AppId("meals"), 1)


def test_edits_that_are_taken_back_leave_the_tighter_one_in_force() -> None:
    for low in all_of("diabetes", "debt", "implied"):
        tight = tightened(BASE, low)
        assert looser(promises_of(tightened(tight, BASE)), promises_of(tight)) == []
        assert promises_of(tightened(tight, BASE)).layout == promises_of(tight).layout


FULL = {"documents": DOCUMENTS}
GRANTED = "document_groups: [PERSON], events: [message], folders: {~/a: write}"
WRITING = f"meals: {{slots: [food], {GRANTED}}}"
READING = "meals: {slots: [food], folders: {~/a: read, ~/b: write}}"


def test_everything_that_an_app_is_granted_is_narrowed_at_once() -> None:
    before, after = policy(**FULL, meals=WRITING), policy(**FULL, meals=READING)
    app = narrowed(before, after).apps["meals"]
    assert (app.document_groups, app.events, app.folders) == ((), (), {"~/a": "read"})
    app = tightened(before, after).apps["meals"]
    assert app.folders == {"~/a": "read", "~/b": "write"}
    assert narrowed(after, before).apps["meals"].folders == {"~/a": "read"}


def test_groups_of_documents_are_granted_when_there_are_such_documents() -> None:
    wanted = policy(**FULL, meals=WRITING)
    assert tightened(BASE, wanted).apps["meals"].document_groups == ()
    assert renewed(BASE, wanted).apps["meals"].document_groups == ("PERSON",)


def test_fused_text_waits_for_an_epoch_with_its_privacy() -> None:
    fused = "health: {cap: 1.0, implied_by: [food], fusion: {epsilon: 8.0}}"
    after = tightened(BASE, policy(**FULL, debt=fused))
    assert after.attributes["health"].fusion is None
    read_again(after)


PRIVACY = "privacy: {delta: 1.0e-5, planned_draws: 2000}"
STRICTER = "privacy: {delta: 1.0e-6, planned_draws: 10}"


def fused(epsilon: str, privacy: str = PRIVACY) -> PolicyDocument:
    return policy(diabetes=f"2.0, fusion: {{epsilon: {epsilon}}}", documents=privacy)


@pytest.mark.parametrize(("mine", "theirs"), [("8.0", "4.0"), ("4.0", "8.0")])
def test_the_smaller_price_of_fused_text_holds_from_the_tick_on(mine: str, theirs: str) -> None:
    after = read_again(tightened(fused(mine), fused(theirs)))
    part = after.attributes["diabetes"].fusion
    assert part is not None
    assert float(part.epsilon) == 4.0
    assert renewed(fused(mine), fused(theirs)) == fused(theirs)


def test_fused_text_that_is_taken_back_is_closed_from_the_tick_on() -> None:
    after = read_again(tightened(fused("8.0"), policy(documents=PRIVACY)))
    assert after.attributes["diabetes"].fusion is None


def test_fused_text_of_an_attribute_that_must_stay_keeps_its_privacy() -> None:
    """It cannot be unlisted before an epoch opens, and until then what it costs is counted."""
    without = policy(debt="").model_copy(update={"attributes": {}})
    after = read_again(tightened(fused("8.0"), without))
    assert after.attributes["diabetes"].fusion is not None
    assert after.privacy == fused("8.0").privacy


def test_the_smaller_delta_holds_from_the_tick_on_and_planned_draws_in_an_epoch() -> None:
    before, after = fused("8.0"), fused("8.0", STRICTER)
    there, back = tightened(before, after).privacy, tightened(after, before).privacy
    assert there is not None
    assert back is not None
    assert (there.delta, there.planned_draws) == (Decimal("1e-6"), 2000)
    assert (back.delta, back.planned_draws) == (Decimal("1e-6"), 10)
    assert differing(before, tightened(before, after)) == ("privacy.delta",)


def test_fused_text_whose_smaller_price_the_smaller_delta_rules_out_is_closed() -> None:
    """Each was reachable alone; what is composed must be a policy that could have been written."""
    after = read_again(tightened(fused("0.25"), fused("8.0", STRICTER)))
    assert after.attributes["diabetes"].fusion is None


def test_privacy_that_is_new_waits_for_an_epoch() -> None:
    assert tightened(BASE, fused("8.0")).privacy is None
    assert renewed(BASE, fused("8.0")).privacy is not None
