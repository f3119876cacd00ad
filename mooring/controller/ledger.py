"""The ledger: what each move promised, what was measured some looks later, and whether it was for the worse.

Before and after are medians over a few looks each, so that one odd look decides nothing. A list made things
worse if more sites are full than before and than was promised, a site is fuller than any was before and than
was promised, or more queries miss their limits although nothing was full before, nor promised to be: where a
site was, what had gathered there takes a while to be worked off, which is waited for. Where something else
happened meanwhile (a rate grew, a site lost capacity or was lost, another list followed), nothing is
concluded.

Loads are held against what the same promise means at the rates that came: no move promises anything of those.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from mooring.contracts.decider import Observation, Proposal, finite
from mooring.contracts.engine import MoveReport
from mooring.model.deployment.move_times import PastMove, Pause
from mooring.model.deployment.moves import Move
from mooring.model.problem.operator import MovesAs
from mooring.model.problem.problem import Problem
from mooring.quantity import decimal

BEFORE = 3
"""Looks before a list that it is held against."""
SKIPPED = 2
"""Looks after it that are not counted: the pause, and what had gathered meanwhile."""
AFTER = 4
"""Looks after those that it is judged by."""
WORKED_OFF = 12
"""Looks that are waited at most, where a site was full before, until none is: what had gathered is worked off
at full speed."""
FULL = 0.97
"""Utilisation from which a site counts as full."""
GROWN = 1.15
"""A rate that grew by more explains itself why a site is fuller."""
MOST_KEPT = 100


LoadsAt = Callable[[Mapping[str, float]], Mapping[str, float]]
"""Rates of streams -> loads of sites in cores, by the model and placement that a promise was made with."""


@dataclass(frozen=True)
class Sighting:
    """What was measured, in figures that a promise can be held against."""

    rates: Mapping[str, float]
    loads_cores: Mapping[str, float]
    """Of the sites whose load was measured."""
    shares: Mapping[str, float]
    """Their utilisation."""
    capacity_cores: Mapping[str, float]
    late: float
    """Queries beyond their limit."""

    @property
    def peak(self) -> float:
        return max(self.shares.values(), default=0.0)

    saturated: frozenset[str] = frozenset()
    """Sites that got done all that they could, whatever their share says."""

    @property
    def full(self) -> int:
        return sum(share >= FULL or site in self.saturated for site, share in self.shares.items())

    def as_json(self) -> dict[str, object]:
        return {"site_loads_cores": dict(self.loads_cores), "busiest": self.peak, "late_queries": self.late}


@dataclass(frozen=True)
class KeptPause:
    """What was predicted of a pause, beside what came."""

    fragment: str
    moved_as: MovesAs
    predicted: Pause
    measured_s: float

    @property
    def held(self) -> bool:
        return self.predicted.holds(self.measured_s)

    def as_json(self) -> dict[str, object]:
        return {
            "fragment": self.fragment,
            "moved_as": self.moved_as,
            "low_s": self.predicted.low_s,
            "likely_s": self.predicted.likely_s,
            "high_s": self.predicted.high_s,
            "measured_s": self.measured_s,
            "held": self.held,
        }

    def words(self) -> str:
        return (
            f"the pause of {self.fragment} ({self.moved_as}) was {decimal(self.measured_s, 2)} s, predicted "
            f"{self.predicted.words()}; later predictions for this kind count it"
        )


@dataclass
class LedgerEntry:
    """One list of moves."""

    at_s: float
    decider: str
    moves: tuple[Move, ...]
    promised: Proposal
    before: Sighting
    loads_at: LoadsAt | None = None
    """What the promise means at other rates."""
    done_s: float | None = None
    after: Sighting | None = None
    verdict: str = "not measured yet"
    worse: bool = False
    pauses: tuple[KeptPause, ...] = ()
    _seen: list[Sighting] = field(default_factory=list)
    _judged_by: list[Sighting] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        predicted = self.promised.predicted
        return {
            "at_s": self.at_s,
            "decider": self.decider,
            "moves": [{"fragment": m.fragment, "from": m.from_site, "to": m.to_site} for m in self.moves],
            "promised": {
                **predicted.as_json(),
                "headroom_before": finite(self.promised.now.headroom),
                "site_loads_at_rates": self.expected(),
            },
            "before": self.before.as_json(),
            "after": None if self.after is None else self.after.as_json(),
            "verdict": self.verdict,
            "pauses": [each.as_json() for each in self.pauses],
        }

    def expected(self) -> dict[str, float]:
        """The promised loads, at the rates that came as far as these were measured."""
        promised = dict(self.promised.predicted.site_loads_cores)
        if self.after is None or self.loads_at is None:
            return promised
        return dict(self.loads_at(self.after.rates))

    def errors(self) -> dict[str, float]:
        """Per site that a move touched and that was measured: how far its load is from what was promised, at
        the rates that came, over what was promised.
        """
        touched = {site for move in self.moves for site in (move.from_site, move.to_site)}
        promised = self.expected()
        measured = {} if self.after is None else self.after.loads_cores
        return {
            site: abs(measured[site] - promised[site]) / promised[site]
            for site in sorted(touched)
            if site in measured and promised.get(site, 0.0) > 0.0
        }


class Ledger:
    """Give it every look; it returns an entry once that has been measured."""

    def __init__(self, problem: Problem) -> None:
        self.entries: deque[LedgerEntry] = deque(maxlen=MOST_KEPT)
        self.problem = problem
        self.pauses: deque[KeptPause] = deque(maxlen=MOST_KEPT)
        """Of all moves, whoever asked for them."""
        self._predicted: Mapping[str, Pause] = {}
        """Of the list under way, by fragment."""
        self._recent: deque[Sighting] = deque(maxlen=BEFORE)
        self._open: LedgerEntry | None = None

    def take(self, observation: Observation) -> LedgerEntry | None:
        if observation.measured.seconds <= 0.0:
            return None
        sighting = self._sighting(observation)
        self._recent.append(sighting)
        entry = self._open
        if entry is None or entry.done_s is None or observation.at_s <= entry.done_s:
            return None
        entry._seen.append(sighting)
        if len(entry._seen) <= SKIPPED:
            return None
        if entry.before.full and sighting.full and len(entry._seen) <= SKIPPED + WORKED_OFF:
            del entry._judged_by[:]
        entry._judged_by.append(sighting)
        return self._close(entry) if len(entry._judged_by) >= AFTER else None

    def promise(self, proposal: Proposal, decider: str, at_s: float, loads_at: LoadsAt | None = None) -> None:
        """A list was ordered."""
        moves = tuple(each.move for each in proposal.moves)
        self._leave("another list followed before it was measured")
        self._open = LedgerEntry(at_s, decider, moves, proposal, _middle(list(self._recent)), loads_at)
        self.entries.append(self._open)

    def begins(self, predicted: Mapping[str, Pause]) -> None:
        """A list begins, with these pauses of its fragments."""
        self._predicted = predicted

    def paused(self, reports: Sequence[MoveReport]) -> list[KeptPause]:
        """A list was carried out: its pauses beside what was predicted of them."""
        found = [
            KeptPause(
                *(report.fragment, PastMove(0.0, report.state_bytes or 0.0, report.moved_as).moved_as),
                *(self._predicted[report.fragment], report.pause_s),
            )
            for report in reports
            if report.fragment in self._predicted
        ]
        self._predicted = {}
        self.pauses.extend(found)
        moved = [report.fragment for report in reports]
        if self._open is not None and [move.fragment for move in self._open.moves] == moved:
            self._open.pauses = tuple(found)
        return found

    def done(self, fragments: Sequence[str], at_s: float) -> None:
        """A list was carried out: ours, or another one."""
        if self._open is not None and [move.fragment for move in self._open.moves] == list(fragments):
            self._open.done_s = at_s
        else:
            self._leave("other moves were made before it was measured")

    def disturbed(self, what: str) -> None:
        """Something happened that makes before and after incomparable."""
        self._leave(what)

    def _leave(self, why: str) -> None:
        if self._open is not None:
            self._open.verdict = f"no conclusion: {why}"
            self._open = None

    def _close(self, entry: LedgerEntry) -> LedgerEntry:
        self._open = None
        entry.after = after = _middle(entry._judged_by)
        entry.worse, entry.verdict = _judged(entry, after)
        return entry

    def _sighting(self, observation: Observation) -> Sighting:
        measured = observation.measured
        shares, loads, capacity = dict[str, float](), dict[str, float](), dict[str, float]()
        for site in self.problem.sites:
            report = measured.sites.get(site.name)
            if report is None or report.utilisation is None or site.name in observation.lost_sites:
                continue
            shares[site.name] = report.utilisation
            capacity[site.name] = report.capacity_cores or site.capacity
            loads[site.name] = report.utilisation * capacity[site.name]
        late = [
            query.name
            for query in self.problem.queries
            if query.max_latency_ms is not None
            and (seen := measured.queries.get(query.name)) is not None
            and seen.mean_latency_ms is not None
            and seen.mean_latency_ms > query.max_latency_ms
        ]
        saturated = frozenset(name for name, report in measured.sites.items() if report.saturated)
        return Sighting(dict(measured.stream_rates), loads, shares, capacity, float(len(late)), saturated)


def _middle(sightings: Sequence[Sighting]) -> Sighting:
    """The median of each figure, of those that were measured."""

    def columns(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: median(row[name] for row in rows if name in row) for name in names}

    return Sighting(
        columns([sighting.rates for sighting in sightings]),
        columns([sighting.loads_cores for sighting in sightings]),
        columns([sighting.shares for sighting in sightings]),
        columns([sighting.capacity_cores for sighting in sightings]),
        median(sighting.late for sighting in sightings) if sightings else 0.0,
        frozenset.intersection(*(sighting.saturated for sighting in sightings)) if sightings else frozenset(),
    )


def _judged(entry: LedgerEntry, after: Sighting) -> tuple[bool, str]:
    """Whether things got worse, and what to say of it."""
    before, promised = entry.before, entry.promised.predicted
    grown = [name for name, rate in after.rates.items() if rate > GROWN * before.rates.get(name, rate)]
    said = f"the busiest site went from {before.peak:.0%} to {after.peak:.0%}"
    if off := entry.errors():
        said += f", site loads differ from the prediction by up to {max(off.values()):.0%}"
    if grown:
        return False, f"{said}; no conclusion: {', '.join(grown[:3])} grew meanwhile"
    shrunk = [
        site
        for site, cores in after.capacity_cores.items()
        if cores < 0.9 * before.capacity_cores.get(site, 0.0)
    ]
    if shrunk:
        return False, f"{said}; no conclusion: {', '.join(shrunk[:3])} lost capacity meanwhile"
    expected = [
        promised.site_loads_cores.get(site, 0.0) / cores for site, cores in after.capacity_cores.items()
    ]
    if after.full > max(before.full, sum(share >= FULL for share in expected)):
        return True, f"{said}: worse, {after.full} sites are full"
    most = max(expected, default=0.0)
    if after.peak > 1.1 * max(before.peak, most) and after.peak > 0.8:
        return True, f"{said}: worse, predicted {most:.0%}"
    if after.late > before.late and not before.full and most < FULL:
        return True, f"{said}: worse, {after.late:.0f} queries exceed their limit"
    return False, said
