"""What a policy file becomes, and that it is taken as a whole or not at all."""

import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pytest
from tests.tactfuld.policy.texts import LATER, POLICY, STANDING, edited

from tactful_core.allocation import Allocation, Online, Preallocated, Standing
from tactful_core.entries import Mechanism
from tactful_core.layout import GENERIC, ReadRule
from tactful_core.promises import EpochRule, Privacy, Promises, Renewal
from tactful_core.values import AppId, AttributeName, ShelfName, SlotName, units_from_epsilon
from tactfuld.policy.document import (
    ALLOCATION_KEYS,
    ALLOCATION_NAMES,
    AllocationPart,
    PrivacyPart,
)
from tactfuld.policy.errors import PolicyError
from tactfuld.policy.loading import load_policy, parse_document, parse_policy
from tactfuld.policy.summary import unused


def parse(text: str) -> Promises:
    return parse_policy(text, source="policy.yaml")


def test_positions_are_numbered_in_the_order_of_the_file() -> None:
    shelves = parse(POLICY).layout.shelves
    assert [(s.name, s.positions, s.tokens) for s in shelves] == [
        ("food.diet", (1, 2), 48),
        ("food.groceries", (3, 4, 5), 48),
        ("news.seen", (6,), 16),
    ]


def test_index_sets_are_the_positions_of_the_named_slots_and_shelves() -> None:
    layout = parse(POLICY).layout
    assert layout.attribute(AttributeName("diabetes")).positions == {1, 2, 3, 4, 5}
    assert layout.attribute(AttributeName("debt")).positions == {3, 4, 5}


def test_unprotected_shelves_are_those_that_say_so() -> None:
    assert [s.name for s in parse(POLICY).layout.shelves if s.unprotected] == ["news.seen"]


def test_the_generic_view_comes_first_wherever_the_file_has_it() -> None:
    lines = POLICY.splitlines(keepends=True)
    lines[10], lines[11] = lines[11], lines[10]
    food = parse("".join(lines)).layout.slot(SlotName("food"))
    assert [view.name for view in food.vocabulary] == [GENERIC, "cheap"]
    assert food.generic.guidance == "Suggest a simple meal."


def test_views_carry_their_statements_and_examples() -> None:
    cheap = parse(POLICY).layout.slot(SlotName("food")).vocabulary[1]
    assert (cheap.guidance, cheap.supports, cheap.examples) == (
        "Keep the cost low.",
        ("I must save.",),
        ("Cheap?",),
    )


def test_grants_hold_slots_and_quotas() -> None:
    grant = parse(POLICY).grant(AppId("meals"))
    assert grant is not None
    assert grant.slots == {"food"}
    assert dict(grant.quota) == {"debt": units_from_epsilon("1.0")}


@pytest.mark.parametrize("cap", ["0.1", "1.5", "2.000", "0.001", "3", "100"])
def test_caps_are_the_decimals_that_were_written(cap: str) -> None:
    layout = parse(edited("cap: 2.0", f"cap: {cap}")).layout
    units = layout.attribute(AttributeName("diabetes")).cap
    assert units == Decimal(cap) * 720_720_000


@pytest.mark.parametrize("charges", range(1, 17))
def test_every_cap_divides_into_whole_units_for_every_number_of_charges(charges: int) -> None:
    text = edited("charges_per_cap: 3", f"charges_per_cap: {charges}").replace("2.0", "1.999")
    promises = parse(text)
    assert promises.allocation == Online(charges)
    assert all(a.cap % charges == 0 for a in promises.layout.attributes)


def allocated(keys: str) -> Allocation:
    return parse(edited("mode: online, charges_per_cap: 3", keys)).allocation


def test_each_rule_of_allocation_is_what_was_written() -> None:
    planned = dict.fromkeys(("diabetes", "debt"), 5)
    assert allocated("mode: online, charges_per_cap: 4") == Online(4)
    assert allocated("mode: preallocated, planned: 5") == Preallocated(
        {AttributeName(name): count for name, count in planned.items()}
    )
    assert allocated("mode: standing") == Standing()
    written = "mode: standing, candidates: 3, releases: 2, weights: {food: 5}"
    assert allocated(written) == Standing(3, 2, {SlotName("food"): 5})


VALUES = {"charges_per_cap": "3", "planned": "3", "candidates": "2", "releases": "2",
          "weights": "{food: 2}"}  # fmt: skip


def test_there_is_a_value_for_every_key_of_a_rule() -> None:
    assert set(VALUES) == ALLOCATION_NAMES == set(AllocationPart.model_fields) - {"mode"}
    assert set(ALLOCATION_KEYS) == {"online", "preallocated", "standing"}


@pytest.mark.parametrize("mode", ALLOCATION_KEYS)
def test_a_rule_takes_its_own_keys_and_no_other(mode: str) -> None:
    """Every set of keys: accepted where it has all that are needed and none of another rule."""
    required, optional = ALLOCATION_KEYS[mode]
    for count in range(len(VALUES) + 1):
        for names in combinations(VALUES, count):
            keys = ", ".join([f"mode: {mode}", *(f"{name}: {VALUES[name]}" for name in names)])
            if required <= set(names) <= required | optional:
                allocated(keys)
            else:
                with pytest.raises(PolicyError, match=f"mode {mode} (needs the|has no) key"):
                    allocated(keys)


@pytest.mark.parametrize("mechanism", Mechanism)
def test_every_mechanism_of_the_core_can_be_chosen(mechanism: Mechanism) -> None:
    written = edited("mechanism: exponential", f"mechanism: {mechanism}")
    assert parse(written).mechanism is mechanism


def renewed(keys: str) -> EpochRule:
    return parse(f"epoch: {{{keys}}}\n{POLICY}").epochs


@pytest.mark.parametrize("renewal", Renewal)
def test_epochs_are_renewed_as_written(renewal: Renewal) -> None:
    assert renewed(f"renew: {renewal}").renewal is renewal


@pytest.mark.parametrize(
    ("tick", "minutes"), [("00:00", 0), ("03:00", 180), ("09:07", 547), ("23:59", 1439)]
)
def test_a_tick_is_in_minutes_after_midnight(tick: str, minutes: int) -> None:
    assert renewed(f'tick: "{tick}"').tick == minutes


def test_epochs_are_opened_by_hand_unless_written_otherwise() -> None:
    assert parse(POLICY).epochs == EpochRule(Renewal.MANUAL, tick=180)
    assert parse(POLICY).charge_also == {}


def test_charge_also_adds_to_what_a_slot_is_charged_and_takes_nothing_away() -> None:
    """Γ ⊋ Γ*: an attribute that no shelf of the slot implies pays as well."""
    text = edited("- food.groceries", "- food.groceries\n      - news")
    text = text.replace(", unprotected: true", "")
    promises = parse(text.replace("papers", "papers\n    charge_also: [diabetes]"))
    news, food = (promises.layout.slot(SlotName(name)) for name in ("news", "food"))
    assert promises.layout.required_charge_set(news.positions) == {"debt"}
    assert promises.charge_set(news) == {"debt", "diabetes"}
    assert promises.charge_set(food) == {"diabetes", "debt"}


@pytest.mark.parametrize(
    "apps", ["", "apps:\n", "apps: {}\n", "apps:\n#  meals: {slots: [food]}\n"]
)
def test_a_policy_without_apps_lets_nobody_ask(apps: str) -> None:
    promises = parse(POLICY.partition("apps:")[0] + apps)
    assert promises.grants == ()
    assert promises.grant(AppId("meals")) is None


@pytest.mark.parametrize("grant", ["", " {}", "\n    slots:", "\n    slots: []"])
def test_an_app_without_slots_is_granted_nothing(grant: str) -> None:
    promises = parse(POLICY.partition("apps:")[0] + f"apps:\n  meals:{grant}\n")
    found = promises.grant(AppId("meals"))
    assert found is not None
    assert found.slots == frozenset()


@pytest.mark.parametrize("written", ["", "renew: manual", 'tick: "03:00"'])
def test_the_epoch_may_be_left_out(written: str) -> None:
    assert parse(f"epoch: {{{written}}}\n" + POLICY).digest == parse(POLICY).digest


@pytest.mark.parametrize(
    "written",
    [
        "releases: 1",
        "candidates: 2, releases: 1, weights: {}",
        "weights: {food: 1}",
        "weights: {news: 1, food: 1}, candidates: 2",
    ],
)
def test_the_digest_ignores_the_defaults_of_a_rule(written: str) -> None:
    standing = edited("mode: online, charges_per_cap: 3", "mode: standing")
    same = standing.replace("mode: standing", f"mode: standing, {written}")
    assert parse(same).digest == parse(standing).digest
    assert parse(same).digest != parse(POLICY).digest


def test_the_digest_ignores_comments_spacing_quotes_and_written_defaults() -> None:
    digest = parse(POLICY).digest
    assert len(digest) == 16
    assert int(digest, 16) >= 0
    same = "# mine\n" + POLICY.replace("cap: 2.0", "cap:   2.00").replace("papers", "'papers'")
    same = same.replace("cheap: {", "cheap: {  ").replace(
        "positions: 2,", "unprotected: false, positions: 2,"
    )
    assert parse(same).digest == digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cap: 2.0", "cap: 2.001"),
        ("positions: 2", "positions: 4"),
        ("charges_per_cap: 3", "charges_per_cap: 4"),
        ("mode: online, charges_per_cap: 3", "mode: preallocated, planned: 3"),
        ("mode: online, charges_per_cap: 3", "mode: standing"),
        ("mechanism: exponential", "mechanism: permute_and_flip"),
        ("version: 1", "version: 1\nepoch: {renew: monthly}"),
        ("version: 1", 'version: 1\nepoch: {tick: "04:00"}'),
        (
            "description: meals and groceries",
            "description: meals and groceries\n    charge_also: [debt]",
        ),
        ("slots: [food]", "slots: [food, news]"),
        ("Keep the cost low.", "Keep the cost very low."),
        ("implied_by: [food]", "implied_by: [food.diet]"),
    ],
)
def test_the_digest_changes_with_every_promise(old: str, new: str) -> None:
    assert parse(edited(old, new)).digest != parse(POLICY).digest


@pytest.mark.parametrize("key", ["candidates: 3", "releases: 2", "weights: {food: 2}"])
def test_the_digest_changes_with_every_key_of_a_rule(key: str) -> None:
    standing = edited("mode: online, charges_per_cap: 3", "mode: standing")
    changed = standing.replace("mode: standing", f"mode: standing, {key}")
    assert parse(changed).digest != parse(standing).digest


def test_the_digest_changes_when_positions_change_places() -> None:
    lines = POLICY.splitlines(keepends=True)
    lines[7], lines[8] = lines[8], lines[7]
    assert parse("".join(lines)).digest != parse(POLICY).digest


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + POLICY.replace("\n", "\r\n").encode())
    assert load_policy(path) == parse(POLICY)


def test_windows_line_ends_leave_line_numbers_right() -> None:
    text = edited("cap: 1.5", "cap: 0.0001").replace("\n", "\r\n")
    with pytest.raises(PolicyError) as caught:
        parse(text)
    assert [problem.line for problem in caught.value.problems] == [22]


def test_a_missing_file_is_an_error_and_not_an_empty_policy(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    with pytest.raises(PolicyError) as caught:
        load_policy(path)
    assert str(caught.value) == (
        f"{path}: there is no policy here; write one with `tactful init`, or check the path."
    )


def test_a_folder_in_place_of_the_file_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"the file cannot be read \(Is a directory\); check it"):
        load_policy(tmp_path)


def test_bytes_that_are_not_utf_8_are_refused_at_their_line(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(POLICY.replace("papers", "journaux d'\u00e9t\u00e9").encode("latin-1"))
    with pytest.raises(PolicyError) as caught:
        load_policy(path)
    assert str(caught.value) == (
        f"{path}:14: the file is not UTF-8 from here on; save it as UTF-8."
    )


def test_a_file_over_one_mebibyte_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"#" * 10_000_000)
    with pytest.raises(PolicyError) as caught:
        load_policy(path)
    assert str(caught.value) == (
        f"{path}: the file is larger than 1 MiB, which is the most that is read; "
        "is it the right file?"
    )


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet\n", "---\n", "\ufeff"])
def test_an_empty_policy_is_refused(text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse(text)
    assert str(caught.value) == "policy.yaml: the policy is empty; begin with version: 1."


def test_the_error_carries_file_line_column_key_and_sentence() -> None:
    with pytest.raises(PolicyError) as caught:
        parse(edited("- food.groceries", "- food.grocery"))
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.column) == ("policy.yaml", 24, 9)
    assert problem.key == "attributes.debt.implied_by[0]"
    assert problem.sentence == (
        "there is no shelf named food.grocery; did you mean food.groceries?"
    )


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    """One of YAML, one of shape and one of names: three kinds, one error."""
    text = edited("cap: 1.5", "cap: -1").replace("slots: [food]", "slots: [fodo]")
    text = text.replace("description: papers", "description: papers\n    description: again")
    with pytest.raises(PolicyError) as caught:
        parse(text)
    assert [(p.line, p.key) for p in caught.value.problems] == [
        (15, "slots.news.description"),
        (23, "attributes.debt.cap"),
        (28, "apps.meals.slots[0]"),
    ]


def test_keys_of_later_versions_promise_and_grant_nothing() -> None:
    fused, plain = re.sub(r"documents:.*\n", "", LATER), parse(LATER)
    for line in ("folders: {~/Recipes", "document_groups:", "events:"):
        fused = re.sub(rf" *{line}.*\n", "", fused)
    without = parse(fused)
    assert without.digest != plain.digest
    assert replace(without, digest=plain.digest) == plain


def test_fused_text_is_promised_at_its_epsilon_and_delta() -> None:
    promises = parse(LATER)
    assert promises.privacy == Privacy(Fraction(1, 10**5), 2000)
    fusion = {attribute.name: attribute.fusion for attribute in promises.layout.attributes}
    assert fusion == {"diabetes": units_from_epsilon(8), "debt": None}
    assert parse(STANDING).privacy is None


def test_keys_of_later_versions_are_kept_and_named() -> None:
    document = parse_document(LATER, source="policy.yaml")
    assert document.privacy == PrivacyPart(delta=Decimal("0.00001"), planned_draws=2000)
    assert document.documents is not None
    assert list(document.documents.groups) == ["PERSON", "DATE_TIME"]
    meals = document.apps["meals"]
    assert meals.folders == {"~/Recipes": "read", "/srv/lists": "write"}
    assert (meals.document_groups, meals.events) == (("PERSON",), ("message",))
    assert list(unused(document)) == [
        "documents",
        "apps.meals.document_groups",
    ]
    assert list(unused(parse_document(STANDING, source="policy.yaml"))) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1.0e-5", "2.0e-5"),
        ("planned_draws: 2000", "planned_draws: 2001"),
        ("fusion: {epsilon: 8.0}", "fusion: {epsilon: 8.001}"),
        ("PERSON: {epsilon: 8.0}", "PERSON: {epsilon: 7}"),
        ("~/Recipes: read", "~/Recipes: write"),
        ("events: [message]", "events: [policy]"),
    ],
)
def test_the_digest_changes_with_every_key_of_a_later_version(old: str, new: str) -> None:
    assert LATER.count(old) == 1
    assert parse(LATER.replace(old, new)).digest != parse(LATER).digest


def test_a_delta_is_the_number_that_was_written_however_it_was_written() -> None:
    same = LATER.replace("1.0e-5", "0.000010")
    assert parse(same).digest == parse(LATER).digest


def test_rules_become_public_parts_of_their_slot() -> None:
    food, news = parse(STANDING).layout.slots
    assert (food.words, food.never) == (("dinner", "pet food"), ("dog",))
    assert food.reads == (
        ReadRule(("shopping", "What shall I buy?"), (ShelfName("food.groceries"),)),
        ReadRule(("diet",), (ShelfName("food.diet"),)),
    )
    assert (news.words, news.never, news.reads) == ((), (), ())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("words: [dinner, pet food]", "words: [dinner]"),
        ("never: [dog]", "never: [cat]"),
        ("when: [diet]", "when: [diets]"),
        ("shelves: [diet]", "shelves: [diet, groceries]"),
    ],
)
def test_the_digest_changes_with_every_rule(old: str, new: str) -> None:
    assert STANDING.count(old) == 1
    assert parse(STANDING.replace(old, new)).digest != parse(STANDING).digest


def test_a_rule_may_read_open_shelves_where_nothing_is_charged_besides() -> None:
    text = edited(
        "seen: {positions: 1, tokens: 16, unprotected: true}",
        "seen: {positions: 1, tokens: 16, unprotected: true}\n"
        "    reads: [{when: [new], shelves: [seen]}]",
    )
    assert parse(text).layout.slots[1].reads
