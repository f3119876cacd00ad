"""A run as protocols see it, for the harness: engines at the sites, storage with its fence, and the runner.

The runner's node holds the mover and stands in for a run session: it carries out lists by stopping, fencing
and starting, starts anew what was lost, and takes moves by hand. All of it crashes with the node, and goes on
from what it had written down. Engines are processes of their own: they outlive their site's agent, and can be
lost without it. Storage does not fail; what is fenced off there cannot commit, wherever it still runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from lab.faults.exploration import Subject
from lab.faults.harness import Harness
from lab.faults.scenario import Scenario
from mooring.contracts.site_machine import (
    Asked,
    Data,
    Effect,
    Event,
    Output,
    Persist,
    Received,
    Send,
    SiteMachine,
    Started,
    TimerDue,
)
from mooring.coordination.move_messages import FragmentMove, ProposalId, Proposed, StartedAt, Whereabouts
from mooring.coordination.mover import Belonging, CarriedOut, CarryOut, MoverMachine, MoverMemory, Verdicts

ROUND_MS = 60.0
PATIENCE_MS = 600.0
"""For a site to start or stop something."""
SILENT_MS = 1500.0
"""After which a site counts as lost."""


class StartFragment(msgspec.Struct, frozen=True, tag=True):
    fragment: int
    epoch: int


class StopFragment(msgspec.Struct, frozen=True, tag=True):
    fragment: int
    epoch: int


class AskEngine(msgspec.Struct, frozen=True, tag=True):
    asked_ms: float


class EngineRuns(msgspec.Struct, frozen=True, tag=True):
    asked_ms: float
    running: tuple[tuple[int, int], ...]
    """Fragments and their epochs."""


class LoseEngine(msgspec.Struct, frozen=True, tag=True):
    """Asked of a site: what runs there is gone."""


class MoveByHand(msgspec.Struct, frozen=True, tag=True):
    """Asked of the runner."""

    fragment: int
    to_site: int


class Target(msgspec.Struct, frozen=True):
    """Where a fragment is to run; `started` once it has been seen there."""

    place: StartedAt
    started: bool


class ListUnderWay(msgspec.Struct, frozen=True):
    ids: tuple[ProposalId, ...]
    """Of the proposals; none: by hand."""
    moves: tuple[FragmentMove, ...]
    at: int = 0
    stopping: bool = True


class RunnerMemory(msgspec.Struct, frozen=True, tag=True):
    mover: MoverMemory
    targets: tuple[Target, ...] = ()
    going: ListUnderWay | None = None
    ended: tuple[ProposalId, ...] = ()
    """The proposals of the last list that was ended."""


class Ground:
    """What outlives processes: storage, and the engines of all sites."""

    def __init__(self, homes: Sequence[int], sites: int) -> None:
        self.epochs = [0] * len(homes)
        """The fence: the newest epoch of every fragment. None below it commits."""
        self.running: list[dict[int, int]] = [{} for _ in range(sites)]
        self.homes = tuple(homes)
        self.by_others = set[int]()
        """Fragments that were put somewhere by recovery or by hand."""

    def take_epoch(self, fragment: int) -> int:
        self.epochs[fragment] += 1
        return self.epochs[fragment]

    def committing(self, fragment: int) -> list[int]:
        """Sites where it runs and can commit."""
        epoch = self.epochs[fragment]
        return [site for site, running in enumerate(self.running) if running.get(fragment) == epoch]


class SiteNode:
    """An agent's machine, and the way to the engine beside it."""

    def __init__(self, machine: SiteMachine, ground: Ground, site: int) -> None:
        self.machine: Any = machine
        self.ground, self._running = ground, ground.running[site]

    def next_timer(self) -> float | None:
        return self.machine.next_timer()  # type: ignore[no-any-return]

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Received(sender=sender, message=AskEngine(asked_ms=asked_ms)):
                return (Send(sender, EngineRuns(asked_ms, tuple(sorted(self._running.items())))),)
            case Received(message=StartFragment(fragment=fragment, epoch=epoch)):
                if epoch == self.ground.epochs[fragment]:  # its checkpoint cannot be opened otherwise
                    self._running[fragment] = epoch
                return ()
            case Received(message=StopFragment(fragment=fragment, epoch=epoch)):
                if self._running.get(fragment) == epoch:
                    del self._running[fragment]
                return ()
            case Asked(request=LoseEngine() | {"type": "LoseEngine"}):
                self._running.clear()
                return ()
        return self.machine.handle(event, now_ms)  # type: ignore[no-any-return]


Judge = Callable[[Proposed], str | None]
"""Why a proposal is refused; None if it is to be carried out."""


class JudgedMover(MoverMachine):
    """A mover whose host judges all that waits at regular times."""

    def __init__(
        self, sites: int, judge: Judge, judge_every_ms: float, belonging: Belonging | None = None
    ) -> None:
        super().__init__(sites, belonging)
        self._judge, self._period_ms = judge, judge_every_ms
        self._next_ms: float | None = None

    def next_timer(self) -> float | None:
        return self._next_ms

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started():
                self._next_ms = now_ms + self._period_ms
            case TimerDue():
                self._next_ms = now_ms + self._period_ms
                found = tuple((each.id, self._judge(each)) for each in self.by_promise())
                return super().handle(Asked(Verdicts(found)), now_ms)
        return super().handle(event, now_ms)


class RunnerNode:
    def __init__(self, sites: int, ground: Ground, judge: Judge, belonging: Belonging | None = None) -> None:
        self.mover = JudgedMover(sites, self._judged, 200.0, belonging)
        self._judge = judge
        self.targets: dict[int, Target] = {}
        self.going: ListUnderWay | None = None
        self._ended: tuple[ProposalId, ...] = ()
        self._sites, self.ground = sites, ground
        self._heard_ms = [0.0] * sites
        self._since_ms: dict[int, float] = {}
        """When a fragment's target, or the stage of the list with it, last changed."""
        self._next_ms = 0.0

    def next_timer(self) -> float | None:
        return min(self._next_ms, self.mover.next_timer() or self._next_ms)

    @property
    def memory(self) -> RunnerMemory:
        targets = tuple(self.targets[fragment] for fragment in sorted(self.targets))
        return RunnerMemory(self.mover.memory, targets, self.going, self._ended)

    @property
    def in_transit(self) -> set[int]:
        """The fragment that the list under way has in hand, if any."""
        return set() if self.going is None else {self.going.moves[self.going.at].fragment}

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started(incarnation=incarnation, durable=durable):
                return self._start(incarnation, durable, now_ms)
            case Received(sender=sender, message=EngineRuns(asked_ms=asked_ms, running=running)):
                return self._reported(sender, asked_ms, dict(running), now_ms)
            case Asked(request=request):
                return self._by_hand(request, now_ms)
            case TimerDue():
                effects: list[Effect] = []
                if now_ms >= (self.mover.next_timer() or now_ms):
                    effects += self._through_mover(event, now_ms)
                return [*effects, *self._round(now_ms)] if now_ms >= self._next_ms else effects
        return self._through_mover(event, now_ms)

    def _judged(self, proposed: Proposed) -> str | None:
        return self._judge(proposed) if self.going is None else "moves are being made by hand"

    def _through_mover(self, event: Event, now_ms: float) -> list[Effect]:
        """The mover's effects, what it orders begun, and what it keeps kept together with the rest."""
        effects: list[Effect] = []
        for effect in self.mover.handle(event, now_ms):
            if isinstance(effect, Persist):
                effects.append(Persist(self.memory))
            elif isinstance(effect, Output) and isinstance(effect.value, CarryOut):
                proposals = effect.value.proposals
                moves = tuple(move for each in proposals for move in each.plan.moves)
                effects += self._begin(tuple(each.id for each in proposals), moves, now_ms)
            else:
                effects.append(effect)
        return effects

    def _tell(self, now_ms: float, *requests: Data) -> list[Effect]:
        return [e for request in requests for e in self._through_mover(Asked(request), now_ms)]

    def _start(self, incarnation: int, durable: Data, now_ms: float) -> list[Effect]:
        self._next_ms = now_ms
        self._heard_ms = [now_ms] * self._sites
        if isinstance(durable, RunnerMemory):
            self.targets = {target.place.fragment: target for target in durable.targets}
            self.going, self._ended = durable.going, durable.ended
            kept: Data = durable.mover
        else:
            kept = None
            for fragment, site in enumerate(self.ground.homes):
                self.targets[fragment] = Target(StartedAt(fragment, site, 0), False)
        self._since_ms = dict.fromkeys(self.targets, now_ms)
        effects: list[Effect] = [Persist(self.memory)] if kept is None else []
        for fragment, target in self.targets.items():
            if target.place.epoch < self.ground.epochs[fragment]:  # fenced, and then it crashed
                effects += self._put(fragment, target.place.site, now_ms)
        started = tuple(target.place for target in self.targets.values() if target.started)
        effects += self._tell(now_ms, Whereabouts(started, self._all_started))
        return [*effects, *self._through_mover(Started(incarnation, kept), now_ms)]

    # Lists of moves.

    def _by_hand(self, request: Any, now_ms: float) -> Sequence[Effect]:
        if isinstance(request, dict):
            request = msgspec.convert(request, MoveByHand)
        target = self.targets[request.fragment]
        if self.going is not None or not target.started or target.place.site == request.to_site:
            return ()
        self.ground.by_others.add(request.fragment)
        place = target.place
        move = FragmentMove(place.fragment, place.site, request.to_site, place.epoch)
        return self._begin((), (move,), now_ms)

    def _begin(
        self, ids: tuple[ProposalId, ...], moves: tuple[FragmentMove, ...], now_ms: float
    ) -> list[Effect]:
        if ids and ids == self._ended:  # it had ended, and then the mover crashed
            return self._tell(now_ms, CarriedOut())
        if self.going is not None:
            return []  # it goes on after a crash
        self.going = ListUnderWay(ids, moves)
        self._since_ms[moves[0].fragment] = now_ms
        return [Persist(self.memory), *self._go_on(now_ms)]

    def _go_on(self, now_ms: float) -> list[Effect]:
        """The next thing to do for the list under way, if it is time."""
        going = self.going
        if going is None:
            return []
        move = going.moves[going.at]
        fragment, target = move.fragment, self.targets[move.fragment]
        if going.stopping:
            if target.place != StartedAt(fragment, move.from_site, move.epoch):  # recovery was quicker
                return self._over("it was started elsewhere meanwhile", now_ms)
            if now_ms - self._since_ms[fragment] < PATIENCE_MS:
                return [Send(move.from_site, StopFragment(fragment, move.epoch))]
            return self._stopped(now_ms)
        if not target.started:
            return []
        if target.place.site != move.to_site:
            return self._over("it could not be started there", now_ms)
        if going.at + 1 == len(going.moves):
            return self._over("", now_ms)
        self.going = msgspec.structs.replace(going, at=going.at + 1, stopping=True)
        self._since_ms[self.going.moves[self.going.at].fragment] = now_ms
        return [Persist(self.memory), *self._go_on(now_ms)]

    def _stopped(self, now_ms: float) -> list[Effect]:
        """It has stopped, or does not answer; either way it is fenced off before it starts elsewhere."""
        assert self.going is not None
        move = self.going.moves[self.going.at]
        self.going = msgspec.structs.replace(self.going, stopping=False)
        return self._put(move.fragment, move.to_site, now_ms)

    def _over(self, why: str, now_ms: float) -> list[Effect]:
        assert self.going is not None
        ids, self.going = self.going.ids, None
        self._ended = ids or self._ended
        effects: list[Effect] = [Persist(self.memory)]
        return [*effects, *self._tell(now_ms, CarriedOut(why))] if ids else effects

    def _put(self, fragment: int, site: int, now_ms: float) -> list[Effect]:
        """Fence off whatever ran, and start it there."""
        place = StartedAt(fragment, site, self.ground.take_epoch(fragment))
        self.targets[fragment] = Target(place, False)
        self._since_ms[fragment] = now_ms
        return [Persist(self.memory), Send(site, StartFragment(fragment, place.epoch))]

    # Looking after what should run.

    def _round(self, now_ms: float) -> list[Effect]:
        self._next_ms = now_ms + ROUND_MS
        effects: list[Effect] = []
        for fragment, target in list(self.targets.items()):
            if not target.started:
                if now_ms - self._since_ms[fragment] > PATIENCE_MS:
                    effects += self._recover(fragment, now_ms)
                else:
                    effects.append(
                        Send(target.place.site, StartFragment(fragment, self.targets[fragment].place.epoch))
                    )
            elif now_ms - self._heard_ms[target.place.site] > SILENT_MS:
                effects += self._recover(fragment, now_ms)
        effects += self._go_on(now_ms)
        return [*effects, *(Send(site, AskEngine(now_ms)) for site in range(self._sites))]

    def _recover(self, fragment: int, now_ms: float) -> list[Effect]:
        """Start it anew, at its site if that answers, or at the next one that does."""
        if self._stops(fragment):
            return []
        here = self.targets[fragment].place.site
        order = [(here + k) % self._sites for k in range(self._sites)]
        answering = [site for site in order if now_ms - self._heard_ms[site] <= SILENT_MS / 2]
        tried = not self.targets[fragment].started
        candidates = [site for site in answering if not (tried and site == here)] or answering
        self.ground.by_others.add(fragment)
        return self._put(fragment, candidates[0], now_ms) if candidates else []

    @property
    def _all_started(self) -> bool:
        return all(target.started for target in self.targets.values())

    def _stops(self, fragment: int) -> bool:
        going = self.going
        return going is not None and going.stopping and going.moves[going.at].fragment == fragment

    def _reported(
        self, site: int, asked_ms: float, running: dict[int, int], now_ms: float
    ) -> Sequence[Effect]:
        self._heard_ms[site] = now_ms
        effects: list[Effect] = []
        for fragment, epoch in running.items():
            target = self.targets[fragment]
            if (target.place.site, target.place.epoch) != (site, epoch):
                effects.append(Send(site, StopFragment(fragment, epoch)))
            elif not target.started:
                self.targets[fragment] = Target(target.place, True)
                effects += [
                    Persist(self.memory),
                    *self._tell(now_ms, Whereabouts((target.place,), self._all_started)),
                ]
        for fragment, target in list(self.targets.items()):
            if target.place.site == site and asked_ms > self._since_ms[fragment] and fragment not in running:
                if self._stops(fragment):
                    effects += self._stopped(now_ms)
                elif target.started:
                    effects += self._recover(fragment, now_ms)
        return [*effects, *self._go_on(now_ms)]


@dataclass(frozen=True)
class RunSubject(Subject):
    """Machines of sites together with a runner, whose number follows the last site's. `make_machine` makes
    those of the sites.
    """

    homes: Callable[[int], Sequence[int]] = field(kw_only=True)
    """From the number of sites: where each fragment is at first."""
    judge: Judge = field(kw_only=True)
    belonging: Callable[[int], Belonging] | None = field(default=None, kw_only=True)
    """From the number of sites: fragments whose places matter to each other."""

    def run(self, scenario: Scenario) -> Harness:
        sites = scenario.sites - 1
        ground = Ground(self.homes(sites), sites)

        def make(site: int, count: int, generator: np.random.Generator) -> SiteMachine:
            if site == sites:
                return RunnerNode(sites, ground, self.judge, self.belonging and self.belonging(sites))
            return SiteNode(self.make_machine(site, sites, generator), ground, site)

        harness = Harness(scenario, make, self.make_checkers(), most_steps=self.most_steps)
        harness.finish()
        return harness
