"""What fused text adds up to: reservations, settlements and their loss for each attribute.

Decides which draws count against whom. What is *not* here: what a draw is and costs (`fusion`),
whether one more reservation fits (`ledger`), and views, whose charges are another sum.

Losses are Rényi divergences at the epoch's order `α`, in units; at one order they add up, and they
become an epsilon once, at the end (`fusion.epsilon_of`, GUARANTEE §5).

Invariants:

- a reservation counts whole until it is settled, and for ever if its epoch ends before;
- what a settled reservation came to only grows: nothing that was drawn is won back;
- a loss follows from cells, `k*` and draws under today's index sets: a group that grows is
  recomputed by interpretation (GUARANTEE §3), also beyond `k*`;
- what a mark knows of entries that are gone counts, open reservations among them whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar

from tactful_core.entries import Cell, EntryId, FusedReserved, FusedSettled, UnreadableEntry
from tactful_core.fusion import FusionParameters, loss_units, rho_cap
from tactful_core.layout import Attribute
from tactful_core.sampling import log_units_up
from tactful_core.values import UNITS_PER_EPSILON, AppId, AttributeName, Position, Units

_UNKNOWN_LOSS = 1_000_000 * UNITS_PER_EPSILON
"""A million epsilon, above every budget that a policy can name."""

K = TypeVar("K")
V = TypeVar("V")


@lru_cache(maxsize=4096)
def draw_loss(parameters: FusionParameters, touching: int, widest: int) -> Units:
    """What one draw tells apart, in units: `ln(1 + c·max((k/k*)², (k/k*)^α)) / (α − 1)`, up.

    Args:
        touching: `k`, how many cells differ or touch an attribute; may exceed `widest` for a group
            that grew and for any two memories.
        widest: the `k*` that the weights of the draw were solved for.

    Source: GUARANTEE §1, "Distance"; up to `k*` it is Theorem 2's.
    """
    if touching <= widest:
        return loss_units(parameters, touching, widest)
    ratio = 1 + parameters.divergence * Fraction(touching, widest) ** parameters.alpha
    return Units(-(-log_units_up(ratio) // (parameters.alpha - 1)))


@lru_cache(maxsize=4096)
def loss_cap(parameters: FusionParameters, epsilon: Units, delta: Fraction) -> Units:
    """The loss that an attribute's fused epsilon allows in the epoch, rounded down."""
    return rho_cap(parameters, Fraction(epsilon, UNITS_PER_EPSILON), delta)


def widest_of(cells: Iterable[Cell]) -> int:
    """`k* = max_a k_a`: how many cells the attribute is charged for that is charged for most."""
    counts: dict[AttributeName, int] = {}
    for cell in cells:
        for name in cell.charged:
            counts[name] = counts.get(name, 0) + 1
    return max(counts.values(), default=0)


@dataclass(frozen=True, slots=True)
class FusedAccount:
    """Draws from the same cells with the same parameters for the same app."""

    app: AppId
    cells: tuple[Cell, ...]
    parameters: FusionParameters

    def loss(self, attribute: Attribute) -> Units:
        """What one draw costs the attribute, whose cells are those charged to it or in `I_a`."""
        return self._loss(
            attribute.name in cell.charged or not cell.positions.isdisjoint(attribute.positions)
            for cell in self.cells
        )

    def distance(self, positions: frozenset[Position]) -> Units:
        """How far one draw tells apart two memories that differ at these positions."""
        return self._loss(not cell.positions.isdisjoint(positions) for cell in self.cells)

    def _loss(self, touched: Iterable[bool]) -> Units:
        return draw_loss(self.parameters, sum(touched), widest_of(self.cells))


@dataclass(frozen=True, slots=True)
class FusedMark:
    """What of fused text is kept in the high-water mark (`ledger.Mark`).

    Attributes:
        settled: `ρ_a` of what was settled in the epoch.
        open: for each reservation that was not settled, what it may come to.
        lifetime: what was settled in all epochs, and what was left open in earlier ones.
        alpha: the lowest order that any of it was drawn at; 0 where nothing was.
    """

    settled: Mapping[AttributeName, Units] = field(default_factory=lambda: MappingProxyType({}))
    open: Mapping[EntryId, Mapping[AttributeName, Units]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    lifetime: Mapping[AttributeName, Units] = field(default_factory=lambda: MappingProxyType({}))
    alpha: int = 0

    def in_later_epoch(self) -> FusedMark:
        """The mark once another epoch is open: what was left open stays spent."""
        return FusedMark(lifetime=_with_all(self.lifetime, self.open), alpha=self.alpha)

    def not_forgetting(self, before: FusedMark, *, in_same_epoch: bool) -> FusedMark:
        """The mark, with what one before it knew of attributes that this one does not name."""
        lifetime = MappingProxyType({**before.lifetime, **self.lifetime})
        alpha = lowest(before.alpha, self.alpha)
        if not in_same_epoch:
            return replace(self, lifetime=lifetime, alpha=alpha)
        still_open = {
            key: MappingProxyType({**before.open.get(key, {}), **self.open.get(key, {})})
            for key in {**before.open, **self.open}
        }
        return FusedMark(
            settled=MappingProxyType({**before.settled, **self.settled}),
            open=MappingProxyType(still_open),
            lifetime=lifetime,
            alpha=alpha,
        )


@dataclass(frozen=True, slots=True)
class FusedSums:
    """All fused text of a ledger.

    Attributes:
        parameters: by epoch, for those in which text may be fused.
        now: those of the open epoch; `None` where no text may be fused in it.
        settled: draws of settled reservations of the open epoch.
        open: reservations of the open epoch that are not settled.
        ended: those that are.
        lifetime: draws settled in all epochs, and reserved in earlier ones without being settled.
        gone: reservations that only a mark shows, or shows more of; dropped when they are settled.
        lost, lifetime_lost: what else is known to have been spent by entries that are gone.
        lost_alpha: the lowest order of those, 0 where there are none.
    """

    parameters: Mapping[int, FusionParameters] = field(default_factory=lambda: MappingProxyType({}))
    now: FusionParameters | None = None
    settled: Mapping[FusedAccount, int] = field(default_factory=lambda: MappingProxyType({}))
    open: Mapping[EntryId, FusedReserved] = field(default_factory=lambda: MappingProxyType({}))
    ended: Mapping[EntryId, FusedReserved] = field(default_factory=lambda: MappingProxyType({}))
    lifetime: Mapping[FusedAccount, int] = field(default_factory=lambda: MappingProxyType({}))
    gone: Mapping[EntryId, Mapping[AttributeName, Units]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    lost: Mapping[AttributeName, int] = field(default_factory=lambda: MappingProxyType({}))
    lifetime_lost: Mapping[AttributeName, int] = field(default_factory=lambda: MappingProxyType({}))
    lost_alpha: int = 0

    def opened(self, epoch: int, parameters: FusionParameters | None) -> FusedSums:
        """The sums in a new epoch; what was left open in the one before stays spent there."""
        lifetime = self.lifetime
        for reservation in self.open.values():
            lifetime = plus(lifetime, self.account(reservation), reservation.draws)
        return FusedSums(
            parameters=with_(self.parameters, epoch, parameters) if parameters else self.parameters,
            now=parameters,
            lifetime=lifetime,
            lifetime_lost=_with_all(self.lifetime_lost, self.gone),
            lost_alpha=self.lost_alpha,
        )

    def reserved(self, entry: FusedReserved, *, in_open_epoch: bool) -> FusedSums:
        """The sums with one more reservation; one of an earlier epoch counts whole at once.

        Raises:
            UnreadableEntry: its epoch has no parameters, or nothing is charged for it.
        """
        if entry.epoch not in self.parameters or not widest_of(entry.cells):
            raise UnreadableEntry("An entry in the ledger reserves draws that could not be made.")
        if in_open_epoch:
            return replace(self, open=with_(self.open, entry.id, entry))
        return replace(self, lifetime=plus(self.lifetime, self.account(entry), entry.draws))

    def settle(self, entry: FusedSettled) -> FusedSums:
        """The sums after a settlement in the open epoch; two copies' settlements both count.

        Raises:
            UnreadableEntry: there is no such reservation, or it was of fewer draws.
        """
        reservation = self.open.get(entry.reservation) or self.ended.get(entry.reservation)
        if reservation is None or entry.draws > reservation.draws:
            raise UnreadableEntry("An entry in the ledger settles what was not reserved.")
        account = self.account(reservation)
        return replace(
            self,
            settled=plus(self.settled, account, entry.draws),
            open=without(self.open, reservation.id),
            gone=without(self.gone, reservation.id),
            ended=with_(self.ended, reservation.id, reservation),
            lifetime=plus(self.lifetime, account, entry.draws),
        )

    def account(self, reservation: FusedReserved) -> FusedAccount:
        """Where the reservation's draws are counted."""
        parameters = self.parameters[reservation.epoch]
        return FusedAccount(reservation.app, reservation.cells, parameters)

    def draws(self) -> Mapping[FusedAccount, int]:
        """All draws of the open epoch, those that are only reserved included."""
        found = self.settled
        for reservation in self.open.values():
            found = plus(found, self.account(reservation), reservation.draws)
        return found

    def spent(self, attribute: Attribute, app: AppId | None = None) -> Units:
        """`ρ_a` in the open epoch, over all apps or by one of them; in units at the order `α`."""
        total = _total(self.draws(), attribute, app)
        return Units(total + (self._missing(self.lost, attribute) if app is None else 0))

    def lifetime_spent(self, attribute: Attribute) -> Units:
        """`ρ_a` over all epochs, a loss at the order `alpha`: a divergence grows with its order."""
        still_open = sum(self._reserves(key, attribute) for key in self.open)
        missing = self._missing(self.lifetime_lost, attribute)
        return Units(_total(self.lifetime, attribute, None) + still_open + missing)

    @property
    def alpha(self) -> int:
        """The lowest order that anything was ever drawn at; 0 where nothing was."""
        accounts = (*self.lifetime, *self.draws())
        return lowest(self.lost_alpha, *(each.parameters.alpha for each in accounts))

    @property
    def is_used(self) -> bool:
        """Whether draws of the epoch were reserved, or may have been."""
        return bool(self.settled or self.open or self.is_short)

    @property
    def is_short(self) -> bool:
        """Whether entries of the epoch are known to be gone."""
        return any(self.lost.values()) or any(self.gone.values())

    def mark(self, attributes: Iterable[Attribute]) -> FusedMark:
        """What is to be kept outside of the ledger."""
        listed = tuple(attributes) if self.alpha else ()
        may_come_to = {
            key: MappingProxyType({a.name: self._may_come_to(key, a) for a in listed})
            for key in {**self.open, **self.gone}
        }
        return FusedMark(
            settled=MappingProxyType({a.name: self._settled(a) for a in listed}),
            open=MappingProxyType(may_come_to),
            lifetime=MappingProxyType({a.name: self._lifetime_settled(a) for a in listed}),
            alpha=self.alpha,
        )

    def lifetime_not_below(
        self, mark: FusedMark, attributes: Iterable[Attribute], *, of_a_later_epoch: bool
    ) -> FusedSums:
        """The sums with what the mark knows of all epochs; its open reservations, where none of
        that epoch is known here, were spent whole."""
        sum_of = self.lifetime_spent if of_a_later_epoch else self._lifetime_settled
        known = mark.in_later_epoch().lifetime if of_a_later_epoch else mark.lifetime
        shown = {a.name: sum_of(a) for a in attributes}
        alpha = lowest(self.alpha, mark.alpha)
        return replace(
            self,
            lifetime_lost=more(known, shown, self.lifetime_lost),
            lost_alpha=self.lost_alpha if alpha == self.alpha else alpha,
        )

    def not_below(self, mark: FusedMark, attributes: Iterable[Attribute]) -> FusedSums:
        """The sums with what a mark of the open epoch knows and the entries do not show.

        A reservation that is settled here may have been open when the mark was made, and what it
        did not use was never spent; one that is not here at all is gone whole.
        """
        listed = tuple(attributes)
        gone = dict(self.gone)
        for key, known in mark.open.items():
            short = {
                a.name: Units(known.get(a.name, 0) - self._may_come_to(key, a))
                for a in listed
                if known.get(a.name, 0) > self._may_come_to(key, a)
            }
            if short and key not in self.ended:
                before = self.gone.get(key, {})
                missing = {name: Units(n + before.get(name, 0)) for name, n in short.items()}
                gone[key] = MappingProxyType({**before, **missing})
        settled = {a.name: self._settled(a) for a in listed}
        return replace(
            self, gone=MappingProxyType(gone), lost=more(mark.settled, settled, self.lost)
        )

    def lost_to(self, names: Iterable[AttributeName]) -> FusedSums:
        """The sums where what is lost may have been drawn from groups that grew or appeared.

        How many cells of a lost draw such a group now touches is not known, and neither is what it
        cost: more than any budget. Nothing changes where nothing is lost.
        """
        if not self.is_short:
            return self
        unknown = dict.fromkeys(names, _UNKNOWN_LOSS)
        return replace(self, lost=MappingProxyType({**self.lost, **unknown}))

    def _reserves(self, key: EntryId, attribute: Attribute) -> int:
        reservation = self.open.get(key)
        if reservation is None:
            return 0
        return reservation.draws * self.account(reservation).loss(attribute)

    def _may_come_to(self, key: EntryId, attribute: Attribute) -> Units:
        missing = self.gone.get(key, {}).get(attribute.name, 0)
        return Units(self._reserves(key, attribute) + missing)

    def _missing(self, lost: Mapping[AttributeName, int], attribute: Attribute) -> int:
        gone = sum(each.get(attribute.name, 0) for each in self.gone.values())
        return lost.get(attribute.name, 0) + gone

    def _settled(self, attribute: Attribute) -> Units:
        lost = self.lost.get(attribute.name, 0)
        return Units(_total(self.settled, attribute, None) + lost)

    def _lifetime_settled(self, attribute: Attribute) -> Units:
        lost = self.lifetime_lost.get(attribute.name, 0)
        return Units(_total(self.lifetime, attribute, None) + lost)


def _total(draws: Mapping[FusedAccount, int], attribute: Attribute, app: AppId | None) -> int:
    return sum(
        count * account.loss(attribute)
        for account, count in draws.items()
        if app is None or account.app == app
    )


def more(
    known: Mapping[AttributeName, int],
    shown: Mapping[AttributeName, int],
    lost: Mapping[AttributeName, int],
) -> Mapping[AttributeName, int]:
    """What is lost once `known` is believed: never less than before, for no attribute."""
    grown = {
        name: lost.get(name, 0) + max(0, known.get(name, 0) - amount)
        for name, amount in shown.items()
    }
    return MappingProxyType({name: units for name, units in {**lost, **grown}.items() if units})


def with_(mapping: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    """The mapping with one more value."""
    return MappingProxyType({**mapping, key: value})


def plus(sums: Mapping[K, int], key: K, amount: int) -> Mapping[K, int]:
    """The sums with this much more under one key."""
    return with_(sums, key, sums.get(key, 0) + amount)


def without(mapping: Mapping[K, V], key: K) -> Mapping[K, V]:
    """The mapping without that key."""
    return MappingProxyType({each: value for each, value in mapping.items() if each != key})


def _with_all(
    sums: Mapping[AttributeName, int], more_of: Mapping[EntryId, Mapping[AttributeName, Units]]
) -> Mapping[AttributeName, Units]:
    for each in more_of.values():
        for name, amount in each.items():
            sums = plus(sums, name, amount) if amount else sums
    return MappingProxyType({name: Units(amount) for name, amount in sums.items()})


def lowest(*orders: int) -> int:
    """The lowest order that is one; 0 stands for none."""
    return min(filter(None, orders), default=0)
