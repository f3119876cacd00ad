"""Guards: whether a proposal is carried out, or why not. One set for all deciders.

A proposal is judged as a whole, but may be cut short: each of its moves carries its predicted effect, so its
first moves are a proposal too, and plans that are made as a whole are never cut. What mends a site that is
too full or a query that is late may be delayed, by pauses and budgets, but is never refused for saving
little. Everything else is weighed in one currency (`gains.py`): what is saved under way over the time a
decision is made for, against what waits while fragments stand still. Gains too small for a move of their own
add up, where they are gains of the same queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mooring.contracts.decider import Proposal
from mooring.contracts.picture import HORIZON_S, Picture
from mooring.controller.gains import LONGER, Gain, Kind, MoveEffect
from mooring.errors import InputError
from mooring.model.deployment.move_times import MoveTimes
from mooring.model.deployment.moves import Move

HOUR_S = 3600.0
DAY_S = 86_400.0
_LEAST: Mapping[str, float] = {
    "moves_per_hour": 0,
    "moves_of_one_per_hour": 0,
    "pause_s": 0,
    "pause_violated_s": 0,
    "looks": 1,
    "looks_violated": 1,
    "net_looks": 0,
    "hysteresis": 1,
    "worth": 0,
    "bar_s": 0,
}
"""What options have to be at least."""
_MOVES_PER_HOUR, _SITES = 12, 20
_SHARES = ("reserved_share", "most_share", "least_gain")


@dataclass(frozen=True)
class GuardOptions:
    """Limits for every decider. The defaults suit sites that are observed every five seconds."""

    moves_per_hour: int | None = None
    """None: 12, and where there are more than 20 sites as many more as there are more sites."""
    reserved_share: float = 0.25
    """Of the moves per hour that are kept for what has to be moved: what only improves does not use them."""
    moves_of_one_per_hour: int = 2
    """Of one and the same fragment."""
    most_share: float = 0.5
    """Of a site's load that may leave it, and of its capacity that may arrive, in one list; a single move is
    always allowed, and so is one plan that mends a violation: less of it would not."""
    pause_s: float = 60.0
    """After a list, and after recovery has started something: what it led to has to show first."""
    pause_violated_s: float = 30.0
    """The same for what mends a site that is too full or a broken limit, if that is less."""
    looks: int = 3
    """In a row at which moves were proposed before any is made."""
    looks_violated: int = 1
    """The same for what mends a violation: a limit is seen to be broken over some looks already."""
    net_looks: int = 2
    """In a row at which a site is too full before `headroom` relieves it for any other decider; 0: never."""
    least_gain: float = 0.05
    """The share that the moves have to save of the tuples, or of the bytes, that the queries they touch have
    under way."""
    hysteresis: float = 1.5
    """So many times `least_gain` what was found by chance has to save once as little was refused, until
    something is moved: of many draws one passes by luck."""
    worth: float = 2.0
    """Tuple-seconds (or byte-seconds) saved per such second waited for the moves."""
    bar_s: float = 1800.0
    """How long a fragment stays after one of its moves was undone, in seconds."""
    untouched: frozenset[str] = frozenset()
    """Fragments that are not moved."""
    quiet_hours: tuple[tuple[float, float], ...] = ()
    """Quiet hours without moves: from and to, in seconds of the day (UTC); past midnight if `to` is
    smaller."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if getattr(self, name) is not None and not getattr(self, name) >= least:
                raise InputError(
                    f"found {getattr(self, name):g}, expected at least {least:g}", field=f"guards.{name}"
                )
        for name in _SHARES:
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(
                    f"found {getattr(self, name):g}, expected a share from 0 to 1", field=f"guards.{name}"
                )
        if self.most_share == 0.0:
            raise InputError("found 0, expected a share above 0", field="guards.most_share")

    def most_per_hour(self, sites: int) -> int:
        if self.moves_per_hour is not None:
            return self.moves_per_hour
        return max(_MOVES_PER_HOUR, _MOVES_PER_HOUR * sites // _SITES)


@dataclass(frozen=True)
class Verdict:
    accepted: Proposal | None
    """The accepted proposal, or its first moves."""
    why: str
    """The reason for a refusal or a cut, or the expected effect."""
    wait: bool = False
    """It is neither refused nor accepted: it was not proposed at enough looks yet, or what it mends is left
    alone for the rest of a pause."""


@dataclass
class Guards:
    options: GuardOptions = field(default_factory=GuardOptions)
    _made: list[tuple[float, str]] = field(default_factory=list)
    """The moves of the last hour: time and fragment."""
    _changed_s: float = float("-inf")
    """When the last list ended, or recovery last started something."""
    _barred: dict[str, float] = field(default_factory=dict)
    _in_a_row: int = 0
    _small: dict[tuple[str, Kind], tuple[float, float]] = field(default_factory=dict)
    """Per fragment and kind, gains of its move that were refused as too small: until when they count, and how
    much is surely saved."""
    _too_little: bool = False
    """A randomised proposal was refused for too small a gain, and nothing has moved since."""

    # What happened

    def moved(self, fragments: Sequence[str], at_s: float) -> None:
        """A list of moves was carried out, by any requester."""
        self._made += [(at_s, fragment) for fragment in fragments]
        self._small = {key: each for key, each in self._small.items() if key[0] not in fragments}
        self._changed_s = at_s
        self._in_a_row, self._too_little = 0, False

    def recovered(self, at_s: float) -> None:
        """Recovery started something somewhere."""
        self._changed_s = at_s
        self._in_a_row, self._too_little = 0, False

    def harm(self, moves: Sequence[Move], picture: Picture) -> str:
        """Why moves that nobody proposed, such as those that undo others, may not be made."""
        to = {move.fragment: move.to_site for move in moves}
        effect = MoveEffect(picture.propose(to, ""), picture)
        before, after = (picture.excess_cores(at).sum() for at in (picture.sites, effect.sites))
        return effect.harm or ("sites would be too full again" if after > before + 1e-3 else "")

    def bar(self, fragment: str, at_s: float) -> None:
        """A move of it made things worse."""
        self._barred[fragment] = at_s + self.options.bar_s

    def held(self, at_s: float) -> Mapping[str, str]:
        """Fragments that may not be moved now, and why."""
        self._made = [made for made in self._made if made[0] > at_s - HOUR_S]
        self._barred = {name: until_s for name, until_s in self._barred.items() if until_s > at_s}
        often = {name for _, name in self._made if self._count(name) >= self.options.moves_of_one_per_hour}
        return {
            **dict.fromkeys(self.options.untouched, "it is in guards.untouched"),
            **dict.fromkeys(
                often,
                f"it moved {self.options.moves_of_one_per_hour} times within the last hour "
                "(moves_of_one_per_hour)",
            ),
            **dict.fromkeys(self._barred, "its last move was undone after a worse measurement"),
        }

    def _count(self, fragment: str) -> int:
        return sum(name == fragment for _, name in self._made)

    # Judging

    def judge(
        self, proposal: Proposal, picture: Picture, at_s: float, times: MoveTimes, busy: str = ""
    ) -> Verdict:
        """`busy`: what is under way that nothing else may interfere with, in words."""
        self._in_a_row = self._in_a_row + 1 if proposal.moves else 0
        if not proposal.moves:
            return Verdict(None, proposal.reason)
        if busy:
            self._in_a_row = 0
            return Verdict(None, busy)
        mends = MoveEffect(proposal, picture).mends
        urgent = proposal.violation or mends
        needed = self.options.looks_violated if urgent else self.options.looks
        if self._in_a_row < needed:
            looks = f"{self._in_a_row} of {needed} looks in a row"
            return Verdict(None, f"proposed at {looks}", wait=True)
        pause_s = min(self.options.pause_s, self.options.pause_violated_s if mends else np.inf)
        if (left_s := self._changed_s + pause_s - at_s) > 0.0:
            reason = f"pause after the last change: {left_s:.0f} s of {pause_s:.0f} s left"
            return Verdict(None, reason, wait=urgent)
        if self._is_quiet_hour(at_s):
            return Verdict(None, "quiet hours: no moves (quiet_hours)")
        if too_small := _too_small(proposal, picture):
            return Verdict(None, too_small)
        cut = self._cut(proposal, picture, at_s, proposal.needed or mends)
        return Verdict(None, cut) if isinstance(cut, str) else self._weigh(cut, picture, times, at_s)

    def _is_quiet_hour(self, at_s: float) -> bool:
        second = at_s % DAY_S
        return any(
            start <= second < end if start <= end else (second >= start or second < end)
            for start, end in self.options.quiet_hours
        )

    def _cut(self, proposal: Proposal, picture: Picture, at_s: float, needed: bool) -> Proposal | str:
        """As many of its first plans as the budget and the sites' shares allow; why not even one."""
        made = len([1 for made, _ in self._made if made > at_s - HOUR_S])
        whole = most = self.options.most_per_hour(len(picture.problem.sites))
        if not needed:
            most -= int(self.options.reserved_share * most)
        budget = most - made
        if budget <= 0:
            more = f"; the other {whole - most} are reserved for necessary moves" if made < whole else ""
            return f"{made} moves within the last hour, limit {whole}{more}"
        ends = [end for end in proposal.plan_ends if end <= budget]
        if not ends:
            return f"it has {proposal.plan_ends[0]} moves, and the hourly limit allows {budget} more"
        shares, allowed = self._shares(proposal.first(ends[-1]), picture), 0
        for plan, end in enumerate(ends):
            # What mends a violation mends it as a whole or not, as a single move does.
            smallest = plan == 0 and (end == 1 or proposal.violation)
            if smallest or shares[end - 1][0] <= self.options.most_share + 1e-9:
                allowed = end
        if not allowed:
            share, what = shares[ends[0] - 1]
            return f"it changes {share:.0%} of {what}, limit {self.options.most_share:.0%}"
        return proposal.first(allowed)

    @staticmethod
    def _shares(proposal: Proposal, picture: Picture) -> list[tuple[float, str]]:
        """With each move and those before it: the largest share of a site's load that has left it, or of its
        capacity that has come, and whose.
        """
        model, index = picture.model, picture.problem.site_index
        own = picture.loads_cores + model.fixed_cores
        here = np.bincount(picture.sites, own, model.site_count)
        more, found = np.zeros(model.site_count), list[tuple[float, str]]()
        rows = {name: f for f, name in enumerate(picture.problem.fragment_names)}
        # What counts is what has come of it in the end: fragments that change places hardly change a share.
        for each in proposal.moves:
            more[index[each.move.from_site]] -= own[rows[each.move.fragment]]
            more[index[each.move.to_site]] += own[rows[each.move.fragment]]
            come, left = more / model.capacity_cores, -more / np.maximum(here, 1e-300)
            site = int(np.argmax(np.maximum(come, left)))
            what = "capacity" if come[site] > left[site] else "load"
            share = float(max(come[site], left[site]))
            found.append((share, f"the {what} of {picture.problem.sites[site].name}"))
        return found

    def _weigh(self, proposal: Proposal, picture: Picture, times: MoveTimes, at_s: float) -> Verdict:
        effect = MoveEffect(proposal, picture)
        if effect.harm:
            return Verdict(None, effect.harm)
        if effect.mends:
            return Verdict(proposal, proposal.reason)
        if not proposal.needed and effect.crowds:
            return Verdict(None, f"{effect.crowds}, and it only improves")
        refusals = []
        for gain in sorted(effect.gains(times), key=lambda each: -each.share):
            refusal = self._refusal(gain, proposal, effect, at_s)
            if refusal is None:
                return Verdict(proposal, proposal.reason)
            refusals.append(refusal)
        return Verdict(None, refusals[0])

    def _refusal(self, gain: Gain, proposal: Proposal, effect: MoveEffect, at_s: float) -> str | None:
        """Why a gain of one kind is too small; None if it is not."""
        least = self._least_gain(proposal)
        what = "tuples under way" if gain.kind == "tuples" else "bytes in flight"
        share = f"it would save {max(gain.share, 0.0):.1%} of the {what} of its queries"
        threshold = f"the threshold of {100.0 * least:g}%"
        others = self._small_gains(gain.kind, effect, at_s)
        if gain.saved <= 0.0 or gain.saved + others < least * gain.touched:
            self._remember(gain, proposal, at_s)
            with_others = " with the smaller gains refused before" if others > 0.0 else ""
            return f"{share}{with_others}, less than {threshold}"
        if not proposal.needed and (gain.surely <= 0.0 or gain.surely + others < least * gain.touched_low):
            self._remember(gain, proposal, at_s)
            return f"{share}, but less than {threshold} at the low end of the measured rates"
        if gain.saved * HORIZON_S < self.options.worth * gain.cost:
            second = "tuple-seconds" if gain.kind == "tuples" else "byte-seconds"
            return (
                f"it would save {gain.saved * HORIZON_S:,.0f} {second}; the moves cost {gain.cost:,.0f}, and "
                f"the saving must be {self.options.worth:g} times that"
            )
        if gain.kind == "bytes" and (longer := effect.longer) > LONGER * gain.share:
            return f"{share}, but its queries would have {longer:.1%} more tuples under way"
        return None

    def _least_gain(self, proposal: Proposal) -> float:
        tried = self._too_little and proposal.drawn
        return self.options.least_gain * (self.options.hysteresis if tried else 1.0)

    def _remember(self, gain: Gain, proposal: Proposal, at_s: float) -> None:
        """A gain that is too small now counts for others of the same queries; not what was found by chance,
        which would pass by luck."""
        self._too_little |= proposal.drawn
        fragments = [each.move.fragment for each in proposal.moves]
        if gain.surely > 0.0 and not proposal.drawn:
            for fragment in fragments:
                self._small[fragment, gain.kind] = at_s + HORIZON_S, gain.surely / len(fragments)

    def _small_gains(self, kind: Kind, effect: MoveEffect, at_s: float) -> float:
        """Refused gains of the same kind and the same queries, of fragments that this does not move."""
        self._small = {key: each for key, each in self._small.items() if each[0] > at_s}
        names = effect.picture.problem.fragment_names
        own = {names[f] for f in np.flatnonzero(effect.touched)} - {names[f] for f in effect.moved}
        return sum(saved for (name, of), (_, saved) in self._small.items() if name in own and of == kind)


def _too_small(proposal: Proposal, picture: Picture) -> str:
    """Why a site cannot run one of the fragments that it is to get, not even alone; empty if it can, or if
    that fragment's own site has no more cores.
    """
    problem, capacity = picture.problem, picture.model.capacity_cores
    needs = picture.loads_cores + picture.model.fixed_cores
    rows = {name: f for f, name in enumerate(problem.fragment_names)}
    for move in (each.move for each in proposal.moves):
        f, target = rows[move.fragment], problem.site_index[move.to_site]
        if capacity[target] < min(needs[f], capacity[problem.site_index[move.from_site]]):
            return (
                f"{move.fragment} needs {needs[f]:.2f} cores, and {move.to_site} has {capacity[target]:.2f}"
            )
    return ""
