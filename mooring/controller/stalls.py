"""What a run does not get done although everything runs: stalls, seen from one look to the next.

Recovery reports fragments that fail and sites that are lost. Here nothing fails: rows wait while no batch is
committed, batches take longer than the trigger, one long batch keeps the others of its site waiting, a
backlog grows, neighbours on the machine keep a site from what it is said to have, a cluster that answers has
no slot or no executor for its fragments, a view is older than its interval, or a stream falls silent. Each
begins only after several looks and ends only once it is clearly over, so that one long batch or one burst is
none. What falls behind says what share it keeps up with, and the headroom of its site is no more than that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mooring.contracts.decider import Observation, Stall, StallKind
from mooring.contracts.engine import IDLE_S, FragmentReport
from mooring.controller.trouble_list import affected
from mooring.model.problem.problem import Problem
from mooring.quantity import decimal

_DO: Mapping[StallKind, str] = {
    "blocked site": "see what else runs on the cluster and that its workers are up; `mooring moves` takes "
    "fragments elsewhere, and they stay otherwise",
    "stalled": "see the log of its site, and move it with `mooring moves` if the site is full",
    "slow batches": "raise `trigger_s` or move a fragment away from its site",
    "long batch": "move it to a site of its own with `mooring moves`, or give its site more cores",
    "growing backlog": "move a fragment away from its site, or lower the rate",
    "starved site": "stop what else runs on its machine, or move fragments away from it",
    "stale view": "raise its `refresh_s`, or move a fragment away from its site",
    "silent stream": "see whether its source still delivers",
}


@dataclass(frozen=True)
class StallOptions:
    triggers: float = 3.0
    """Without a batch while rows wait, before a fragment counts as stalled."""
    backlog: float = 3.0
    """Triggers whose rows wait before a growing backlog counts: those of the batch under way, of the time
    since it began, and of the batch before it. Without a trigger, looks."""
    first_s: float = 60.0
    """Seconds after a start in which no batch is missed yet: the first one compiles."""
    settles_s: float = 30.0
    """Seconds after a start in which slow batches do not count, and the second is not missed either."""
    looks: int = 3
    """Looks in a row that make a slow fragment, or a growing backlog, and that end one."""
    calm: float = 0.9
    """Share of the trigger below which batches have to be to end it."""
    silent_s: float = 30.0
    """Seconds without rows, at least, before a stream counts as silent, ..."""
    starved: float = 0.6
    """Share of its capacity below which what neighbours leave a site is too little, ..."""
    starved_looks: int = 2
    """... at so many looks in a row, while it uses half of that at least."""
    blocked: float = 2.0
    """Triggers without a batch after which a cluster counts as blocked that runs no task of ours."""
    gaps: float = 3.0
    """... and so many times as long as it was ever silent before."""
    flowing: int = 6
    """Looks with rows before a stream can fall silent."""


_NOT_BLOCKED: tuple[StallKind, ...] = ("starved site", "stale view", "silent stream")
_Found = tuple[StallKind, str, float, str | None, str, float | None]
"""Kind, name, since when, site, why, and the share that it keeps up with."""


@dataclass
class _Progress:
    """Of one fragment since it was started where it is."""

    begun_s: float
    key: tuple[str, int | None]
    batches: int | None = None
    committed_s: float = 0.0
    waiting: deque[float] = field(default_factory=lambda: deque(maxlen=4))
    at_s: deque[float] = field(default_factory=lambda: deque(maxlen=4))
    slow: int = 0
    calm: int = 0


@dataclass
class _Flow:
    last_s: float
    looks: int = 0
    gap_s: float = 0.0


class Watch:
    """One per run: give it every observation."""

    def __init__(self, problem: Problem, options: StallOptions | None = None) -> None:
        self.problem, self._options = problem, options or StallOptions()
        self._progress: dict[str, _Progress] = {}
        self._queues: dict[str, tuple[set[str], _Progress]] = {}
        self._flows: dict[str, _Flow] = {}
        self._homes: Mapping[str, str] = {}
        self._due_s: dict[str, float] = {}
        self._starved_looks: dict[str, int] = {}
        self._since: dict[tuple[str, str], float] = {}

    def take(self, observation: Observation) -> tuple[Stall, ...]:
        """What is stalled now, each with when it began."""
        looked = (self._fragments, self._blocked, self._sites, self._starved, self._streams, self._views)
        found = [each for look in looked for each in look(observation)]
        blocked = list(self._blocked_sites(observation, found))
        here = {each[1] for each in blocked}
        # What follows from that is no trouble of its own.
        found = [*blocked, *(each for each in found if each[3] not in here or each[0] in _NOT_BLOCKED)]
        self._homes = observation.sites
        began = {(kind, name): since_s for kind, name, since_s, *_ in found}
        self._since = {key: min(since_s, self._since.get(key, since_s)) for key, since_s in began.items()}
        return tuple(
            Stall(
                kind,
                name,
                site,
                self._since[kind, name],
                why,
                self._affected(name, is_stream=kind == "silent stream"),
                _DO[kind],
                share,
            )
            for kind, name, _, site, why, share in found
        )

    # Fragments

    def _fragments(self, seen: Observation) -> Iterator[_Found]:
        trigger_s = seen.measured.trigger_s
        for name in self._progress.keys() - seen.sites.keys():
            del self._progress[name]
        step_s = trigger_s or seen.measured.seconds / 3.0
        for name, site in seen.sites.items():
            report = seen.measured.fragments.get(name)
            if report is None or not report.running:
                continue
            progress = self._followed(name, site, report, seen.at_s)
            if trigger_s > 0.0:
                yield from self._stalled(name, report, progress, seen.at_s, trigger_s)
                yield from self._slow(name, report, progress, seen.at_s, trigger_s)
            first = progress.committed_s == progress.begun_s
            starting = first and seen.at_s - progress.begun_s < self._options.first_s
            if report.waiting is not None and not starting:
                yield from self._backlog(name, report.input_rate * step_s, report.input_rate, progress)

    def _followed(self, name: str, site: str, report: FragmentReport, at_s: float) -> _Progress:
        key = (site, report.epoch)
        progress = self._progress.get(name)
        if progress is None or progress.key != key:
            progress = self._progress[name] = _Progress(at_s, key, report.batches, at_s)
        if report.batches is not None and report.batches != progress.batches:
            progress.batches, progress.committed_s = report.batches, at_s
        if report.waiting is not None:
            progress.waiting.append(report.waiting)
            progress.at_s.append(at_s)
            if report.waiting <= 0.0:  # nothing was due
                progress.committed_s = at_s
        return progress

    def _stalled(
        self, name: str, report: FragmentReport, progress: _Progress, at_s: float, trigger_s: float
    ) -> Iterator[_Found]:
        options = self._options
        quiet_s, most_s = at_s - progress.committed_s, options.triggers * trigger_s
        if progress.committed_s == progress.begun_s or at_s - progress.begun_s < options.settles_s:
            most_s = max(most_s, options.first_s)
        if report.waiting is None:  # a source outside: it says neither that it has done something nor nothing
            if report.open_s is None or report.batches is None:
                return
            quiet_s, most_s = min(quiet_s, report.open_s), most_s + IDLE_S
        if quiet_s > most_s:
            waits = f"while {report.waiting:.0f} rows wait" if report.waiting else "and it is not idle"
            why = f"no batch was committed for {quiet_s:.0f} s {waits}; the trigger is {trigger_s:g} s"
            yield "stalled", name, at_s - quiet_s, progress.key[0], why, 0.0

    def _slow(
        self, name: str, report: FragmentReport, progress: _Progress, at_s: float, trigger_s: float
    ) -> Iterator[_Found]:
        if report.batch_s is None or at_s - progress.begun_s < self._options.settles_s:
            return
        took_s = max(report.batch_s, report.lasting_s(trigger_s))
        over = took_s > trigger_s
        idle = not over or at_s - progress.committed_s > self._options.triggers * max(trigger_s, took_s)
        progress.slow = progress.slow + 1 if over and not idle else 0
        progress.calm = progress.calm + 1 if idle or took_s <= self._options.calm * trigger_s else 0
        lasts = ("slow batches", name) in self._since and progress.calm < self._options.looks
        if lasts or progress.slow >= self._options.looks:
            why = f"its batches take {took_s:.1f} s at a trigger of {trigger_s:g} s"
            if took_s > report.batch_s:
                why = f"its batch has lasted {took_s:.1f} s so far, at a trigger of {trigger_s:g} s"
            if not over:
                why = f"its batches took over {trigger_s:g} s, the trigger, and the last {took_s:.1f} s"
            share = min(1.0, trigger_s / took_s) if over else None
            yield "slow batches", name, at_s, progress.key[0], why, share

    def _backlog(self, name: str, step: float, rate: float, progress: _Progress) -> Iterator[_Found]:
        waiting, at_s = list(progress.waiting), list(progress.at_s)
        if len(waiting) < 2:
            return
        grows = len(waiting) == 4 and all(b > a for a, b in pairwise(waiting))
        large = waiting[-1] > self._options.backlog * step
        lasts = ("growing backlog", name) in self._since and (
            len(waiting) < 4 or waiting[-1] > max(waiting[0], 0.0) or (large and waiting[-1] > waiting[-2])
        )
        if not (grows and large) and not lasts:
            return
        more = max(0.0, waiting[-1] - waiting[0]) / max(at_s[-1] - at_s[0], 1e-9)
        share = rate / (rate + more) if more > 0.0 else None
        why = f"{waiting[-1]:.0f} rows wait, {decimal(more)} more each second; "
        why += f"it reads {decimal(rate)} a second"
        yield "growing backlog", name, at_s[0], progress.key[0], why, share

    def _sites(self, seen: Observation) -> Iterator[_Found]:
        """Where an engine tells what waits at a whole site only."""
        here: dict[str, dict[str, float]] = {}
        for name, site in seen.sites.items():
            report = seen.measured.fragments.get(name)
            here.setdefault(site, {})[name] = 0.0 if report is None else report.input_rate
        for site, rates in here.items():
            found = seen.measured.sites.get(site)
            if found is None or found.backlog is None:
                continue
            queue = self._queues.get(site)
            if queue is None or queue[0] != rates.keys():
                queue = self._queues[site] = (set(rates), _Progress(seen.at_s, (site, None)))
            queue[1].waiting.append(found.backlog)
            queue[1].at_s.append(seen.at_s)
            rate = sum(rates.values())
            yield from self._backlog(site, rate * seen.measured.seconds / 3.0, rate, queue[1])

    def _blocked(self, seen: Observation) -> Iterator[_Found]:
        """One batch that lasts for several triggers while all others of its site commit nothing."""
        trigger_s, options = seen.measured.trigger_s, self._options
        here: dict[str, list[str]] = {}
        for name, progress in self._progress.items():
            if trigger_s > 0.0 and seen.at_s - progress.begun_s >= options.first_s:
                here.setdefault(progress.key[0], []).append(name)
        for site, names in here.items():
            lasts_s = {name: self._open_s(name, seen) for name in names}
            longest = max(names, key=lasts_s.__getitem__)
            waits = [
                name
                for name in names
                if name != longest
                and (self._progress[name].waiting or [0.0])[-1] > 0.0
                and seen.at_s - self._progress[name].committed_s > 2.0 * trigger_s
            ]
            if waits and lasts_s[longest] > options.triggers * trigger_s:
                why = f"its batch takes {lasts_s[longest]:.0f} s, and {', '.join(waits[:5])} wait for it"
                yield "long batch", longest, seen.at_s - lasts_s[longest], site, why, None

    def _open_s(self, name: str, seen: Observation) -> float:
        """How long the batch has lasted that a fragment works at, or else its last one."""
        report = seen.measured.fragments.get(name)
        if report is None or not report.running:
            return 0.0
        open_s = report.open_s or 0.0
        return max(report.batch_s or 0.0, open_s if open_s > seen.measured.trigger_s else 0.0)

    def _blocked_sites(self, seen: Observation, found: Sequence[_Found]) -> Iterator[_Found]:
        """Sites that answer and run nothing, for lack of executors or of slots."""
        trigger_s, options = seen.measured.trigger_s, self._options
        if trigger_s <= 0.0:
            return
        stalled = {name for kind, name, *_ in found if kind == "stalled"}
        for site in dict.fromkeys(seen.sites.values()):
            report = seen.measured.sites.get(site)
            here = [name for name, at in seen.sites.items() if at == site and name in self._progress]
            busy = [name for name in here if self._has_work(name, seen)]
            if report is None or not busy:
                continue
            quiet_s = min(seen.at_s - self._progress[name].committed_s for name in busy)
            if quiet_s <= options.blocked * trigger_s:
                continue
            if report.estimated:
                # Nothing is seen of it, but that nothing comes of any of them.
                if len(busy) < 2 or not stalled.issuperset(busy):
                    continue
                why = f"none of its {len(busy)} fragments with work commits a batch, although it answers; "
                why += "state its `ui`, to see its executors"
            elif report.executors == 0:
                why = "it has no executors"
            elif report.active_tasks == 0 and report.held_slots:
                why = f"others hold {report.held_slots} of its {report.slots or report.held_slots} slots"
            else:
                continue
            yield "blocked site", site, seen.at_s - quiet_s, site, f"{why}; {', '.join(busy[:5])} wait", 0.0

    def _has_work(self, name: str, seen: Observation) -> bool:
        """Rows wait for it, or it is in the middle of a batch."""
        report = seen.measured.fragments.get(name)
        if report is None or not report.running or name in seen.measured.views:
            return False
        return bool(report.waiting) or report.lasting_s(seen.measured.trigger_s) > 0.0

    def _starved(self, seen: Observation) -> Iterator[_Found]:
        options, begun_s = self._options, dict[str, float]()
        for progress in self._progress.values():
            begun_s[progress.key[0]] = max(progress.begun_s, begun_s.get(progress.key[0], progress.begun_s))
        stated = {each.name: each.capacity for each in self.problem.sites}
        for site in dict.fromkeys(seen.sites.values()):
            report, settled_s = seen.measured.sites.get(site), seen.at_s - begun_s.get(site, seen.at_s)
            if site not in self._starved_looks and (report is None or report.left_cores is None):
                continue
            if report is None or report.utilisation is None or settled_s < options.settles_s:
                continue
            capacity = report.capacity_cores or stated.get(site, 0.0)
            left, used = report.left_cores, report.utilisation * capacity
            few = left is not None and left < options.starved * capacity and used >= 0.5 * left
            few = few and self._is_held_up(site, seen)
            before = self._starved_looks.get(site, 0)
            now = self._starved_looks[site] = min(before + 1, options.starved_looks) if few else before - 1
            if now <= 0:
                del self._starved_looks[site]
            lasts = ("starved site", site) in self._since and now > 0
            if left is not None and (lasts or now >= options.starved_looks):
                why = f"its neighbours on the machine leave it {left:.2f} of {capacity:g} cores"
                yield "starved site", site, seen.at_s, site, why, None

    def _is_held_up(self, site: str, seen: Observation) -> bool:
        """Whether a batch there took half of the trigger, or is late by that: neighbours that keep threads
        waiting while all is done in time are no trouble.
        """
        trigger_s = seen.measured.trigger_s
        here = [name for name, progress in self._progress.items() if progress.key[0] == site]
        reports = [(name, seen.measured.fragments[name]) for name in here if name in seen.measured.fragments]
        return trigger_s <= 0.0 or any(
            (report.batch_s or 0.0) > 0.5 * trigger_s
            or (report.waiting != 0.0 and seen.at_s - self._progress[name].committed_s > 1.5 * trigger_s)
            for name, report in reports
        )

    # Streams and views

    def _streams(self, seen: Observation) -> Iterator[_Found]:
        if seen.measured.seconds <= 0.0 or seen.measured.ends:
            return
        for name, rate in seen.stream_rates.items():
            flow = self._flows.setdefault(name, _Flow(seen.at_s))
            gap_s = seen.at_s - flow.last_s
            if rate > 0.0:
                if flow.looks and gap_s > seen.measured.seconds * 1.5:
                    flow.gap_s = max(flow.gap_s, gap_s)
                flow.last_s, flow.looks = seen.at_s, flow.looks + 1
            elif flow.looks >= self._options.flowing and gap_s >= max(
                self._options.silent_s, self._options.gaps * flow.gap_s
            ):
                why = f"it brought no rows for {gap_s:.0f} s"
                yield "silent stream", name, flow.last_s, None, why, None

    def _views(self, seen: Observation) -> Iterator[_Found]:
        for name, view in seen.measured.views.items():
            if not view.due:
                self._due_s.pop(name, None)
                continue
            since_s = self._due_s.setdefault(name, seen.at_s)
            if seen.at_s - since_s > view.refresh_s + view.took_s:
                why = f"it is {view.age_s:.0f} s old, and due every {view.refresh_s:g} s"
                yield "stale view", name, since_s, seen.sites.get(name), why, None

    def _affected(self, name: str, *, is_stream: bool) -> tuple[str, ...]:
        """Queries behind a fragment, all of a site, or a stream; the fragments if no query is."""
        if is_stream:
            return affected(self.problem, streams=[name])
        own = [each for each in self.problem.fragment_names if name in (each, self._homes.get(each))]
        behind = affected(self.problem, fragments=own)
        if name in own or any(query.name in behind for query in self.problem.queries):
            return behind
        return tuple(sorted({*behind, *own}))  # of a site
