"""Private memory interfaces that are broken on purpose: each switches one safeguard off.

Each mutant is a `System` in which one part is replaced; `test_mutants` shows that the checks reject
it. What is *not* here: what is checked (`checks`), and the real interface (`tactful_core`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.contracts.broken_draws import (
    argmax,
    base_measure_from_memory,
    candidates_from_memory,
    content_as_relevance,
    flips_as_if_of_bounded_range,
    half_the_sensitivity,
    instead_of_reuse,
    lets_memory_choose_in_the_group,
    redraws_for_nothing,
    releases_again_by_need,
    response_times_measure,
    reuses_where_memory_agrees,
    weights_rounded_to_zero,
)
from tests.contracts.broken_stores import (
    CapsForEachApp,
    ChargesInTurn,
    ChargesWhomItFits,
    ChecksAfterwards,
    ChecksThenWrites,
    NoCap,
    NoQuotas,
    NoShares,
    NotDurable,
    RareWordsOnly,
    RemovesDuplicates,
    ReopensTheEpoch,
    SpillsOver,
    UnreadableIsEmpty,
    WritesHalf,
)
from tests.contracts.broken_turns import (
    asks_best_slot_first,
    charges_after_the_draw,
    charges_only_full_rows,
    completes_guidance_from_memory,
    drawing,
    draws_when_refused,
    generic_view,
    lets_scoring_fail,
    names_the_score_in_an_error,
    offers_what_memory_supports,
    omits_one_attribute,
    on_failure,
    quotes_by_need,
    reading_apart,
    reads_what_memory_suggests,
    refunds_cancelled_turns,
    routes_by_other_apps_queries,
    shows_the_score,
    skips_empty_slots,
    spends_by_need,
    standing_view,
    tells_apps_of_failures,
)
from tests.contracts.enumeration import System, TurnRunner
from tests.fakes.in_memory_charges import InMemoryCharges

from tactful_core.entries import Entry


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken system, the part of the contract that it breaks, and the check that says so."""

    name: str
    breaks: str
    killed_by: str
    system: System


RATIO = "ratio_within_charges"
ORDER = "charge_precedes_reading"
REFUSAL = "refusal_charges_nobody"
QUOTA = "quota_is_kept"
UNREADABLE = "unreadable_ledger_admits_nothing"
INTERLEAVED = "interleaved_requests_stay_within_caps"
SHARE = "a_share_is_for_one_slot"
PAID_ONCE = "standing_views_are_paid_once"
OWN_QUERIES = "only_own_queries_count"


def _runner(run_turn: TurnRunner) -> System:
    return System(run_turn=run_turn)


def _store(charges: Callable[[tuple[Entry, ...]], InMemoryCharges]) -> System:
    return System(charges=charges)


_C1 = (
    Mutant("offers_what_memory_supports", "C1", RATIO, _runner(offers_what_memory_supports)),
    Mutant("completes_guidance_from_memory", "C1", RATIO, _runner(completes_guidance_from_memory)),
)
_C2 = (
    Mutant("omits_one_attribute", "C2", RATIO, _runner(omits_one_attribute)),
    Mutant("charges_in_turn", "C2", RATIO, _store(ChargesInTurn)),
    Mutant("charges_only_full_rows", "C2", RATIO, _runner(charges_only_full_rows)),
    Mutant(
        "charges_a_part_and_reads_all", "C2", RATIO, _runner(reading_apart(charges_whole=False))
    ),
    Mutant("scores_by_rarity_in_the_store", "C2", RATIO, System(memory=RareWordsOnly)),
    Mutant("content_as_relevance", "C2", RATIO, _runner(drawing(content_as_relevance))),
    Mutant("base_measure_from_memory", "C2", RATIO, _runner(drawing(base_measure_from_memory))),
)
_C3 = (
    Mutant("argmax", "C3", RATIO, _runner(drawing(argmax))),
    Mutant("half_the_sensitivity", "C3", RATIO, _runner(drawing(half_the_sensitivity))),
    Mutant("weights_rounded_to_zero", "C3", RATIO, _runner(drawing(weights_rounded_to_zero))),
    Mutant(
        "flips_as_if_of_bounded_range", "C3", RATIO, _runner(drawing(flips_as_if_of_bounded_range))
    ),
    Mutant("response_times_measure", "C3", RATIO, _runner(drawing(response_times_measure))),
    Mutant("shows_the_score", "C3", RATIO, _runner(shows_the_score)),
    Mutant("redraws_for_nothing", "C3", RATIO, _runner(instead_of_reuse(redraws_for_nothing))),
    Mutant(
        "reuses_where_memory_agrees",
        "C3",
        RATIO,
        _runner(instead_of_reuse(reuses_where_memory_agrees)),
    ),
    Mutant(
        "lets_memory_choose_in_the_group",
        "C3",
        RATIO,
        _runner(instead_of_reuse(lets_memory_choose_in_the_group)),
    ),
    Mutant("reuses_what_nobody_paid", "C3", PAID_ONCE, _store(NotDurable)),
)
_C4 = (
    Mutant("asks_best_slot_first", "C4", RATIO, _runner(asks_best_slot_first)),
    Mutant("skips_empty_slots", "C4", RATIO, _runner(skips_empty_slots)),
    Mutant("reads_what_memory_suggests", "C4", RATIO, _runner(reads_what_memory_suggests)),
    Mutant("spends_by_need", "C4", RATIO, _runner(spends_by_need)),
    Mutant("candidates_from_memory", "C4", RATIO, _runner(drawing(candidates_from_memory))),
    Mutant(
        "releases_again_by_need", "C4", RATIO, _runner(instead_of_reuse(releases_again_by_need))
    ),
    Mutant(
        "routes_by_other_apps_queries", "C4", OWN_QUERIES, _runner(routes_by_other_apps_queries)
    ),
)
_C5 = (
    Mutant("no_cap", "C5", RATIO, _store(NoCap)),
    Mutant("checks_afterwards", "C5", REFUSAL, _store(ChecksAfterwards)),
    Mutant("charges_whom_it_fits", "C5", REFUSAL, _store(ChargesWhomItFits)),
    Mutant("writes_half", "C5", RATIO, _store(WritesHalf)),
    Mutant("caps_for_each_app", "C5", RATIO, _store(CapsForEachApp)),
    Mutant("reopens_the_epoch", "C5", RATIO, _store(ReopensTheEpoch)),
    Mutant("not_durable", "C5", RATIO, _store(NotDurable)),
    Mutant("checks_then_writes", "C5", INTERLEAVED, _store(ChecksThenWrites)),
    Mutant("no_shares", "C5", SHARE, _store(NoShares)),
    Mutant("unreadable_is_empty", "C5", UNREADABLE, _store(UnreadableIsEmpty)),
    Mutant("no_quotas", "C5", QUOTA, _store(NoQuotas)),
    Mutant("refunds_cancelled_turns", "C5", RATIO, _runner(refunds_cancelled_turns)),
    Mutant("charges_after_the_draw", "C5", ORDER, _runner(charges_after_the_draw)),
    Mutant("draws_when_refused", "C5", RATIO, _runner(draws_when_refused)),
)
_C6 = (
    Mutant("names_the_score_in_an_error", "C6", RATIO, _runner(names_the_score_in_an_error)),
    Mutant("lets_scoring_fail", "C6", RATIO, _runner(lets_scoring_fail)),
    Mutant("generic_view_on_failure", "C6", RATIO, _runner(on_failure(generic_view))),
    Mutant("standing_view_on_failure", "C6", RATIO, _runner(on_failure(standing_view))),
    Mutant("tells_apps_of_failures", "C6", RATIO, _runner(tells_apps_of_failures)),
    Mutant("quotes_by_need", "C6", RATIO, _runner(quotes_by_need)),
)
_C7 = (
    Mutant("spills_over", "C7", RATIO, System(memory=SpillsOver)),
    Mutant("removes_duplicates", "C7", RATIO, System(memory=RemovesDuplicates)),
)

MUTANTS: tuple[Mutant, ...] = (*_C1, *_C2, *_C3, *_C4, *_C5, *_C6, *_C7)
