"""A run as one object: collect -> decide -> apply, again and again.

It is made from a problem, an engine, a clock and a mailbox, and depends on nothing that differs between Spark
and the simulator. It owns what a run needs beside: the journal of what was done, the recovery from faults,
the desk that answers requests for moves, and the decider whose proposals it publishes. The command line, the
web page and tests show and steer a run through this object.

Every step of a turn is a part of the run that fails by itself (`parts.py`): advice, measurement and
publishing end neither the run nor a turn of its data plane.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from mooring.contracts.clock import Clock
from mooring.contracts.decider import Decider, Observation
from mooring.contracts.engine import LOOK_S, FallibleEngine, Measurement, carry_out
from mooring.contracts.mailbox import Mailbox, Request
from mooring.controller.adaptation import Act, Adaptation, Considered
from mooring.controller.cycle import Book, Look
from mooring.controller.drained_sites import DrainedSites
from mooring.controller.events import ROUTES, SERVED_BY, Event, EventRoute, Incident, Order, ProblemChanged
from mooring.controller.executors import ExecutorCount
from mooring.controller.guards import GuardOptions
from mooring.controller.joining import Joined, joined
from mooring.controller.journal import Journal
from mooring.controller.move_desk import MoveDesk
from mooring.controller.move_list import AtOnce, Carrier
from mooring.controller.parts import Kind, Parts
from mooring.controller.records import Records, Report, Status
from mooring.controller.recovery import Recovery, RecoveryOptions
from mooring.controller.replanning import Replanning
from mooring.controller.run_state import RunState
from mooring.controller.stalls import Watch
from mooring.controller.state_estimator import SurveyOptions
from mooring.controller.supervision import Reviver, Supervisor
from mooring.controller.trouble_list import NamedTrouble, TroubleList
from mooring.errors import OvertakenError, described
from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.model.problem.query import Query


@dataclass(frozen=True)
class SessionOptions:
    tick_s: float = 0.2
    """Seconds between two turns: how soon a dead site or a request is noticed."""
    look_s: float = LOOK_S
    """Seconds between two looks. A look asks every fragment whether it runs and how far it is, and every such
    question costs its site some milliseconds of CPU."""
    trim_s: float = 10.0
    """Seconds between two trimmings of the channels."""
    list_patience_s: float = 60.0
    """Seconds that the end of a run waits for the move that is under way. What it does not wait for, the next
    run decides by the journal.
    """
    recovery: RecoveryOptions = field(default_factory=RecoveryOptions)


@dataclass
class KeptLease:
    """Of the storage."""

    sign: Callable[[], None]
    """Says that the run lives; raises `OvertakenError` once another one owns the storage."""

    def on(self, event: Event) -> None:
        self.sign()


@dataclass
class LookPace:
    """When it is time to look, and to trim the channels."""

    clock: Clock
    next_look_s: float = 0.0
    next_trim_s: float = 0.0

    def begin(self) -> None:
        self.next_look_s = self.next_trim_s = self.clock.monotonic_s()

    def on(self, event: Event) -> None:
        self.next_look_s = self.clock.monotonic_s()


class Server(Protocol):
    def serve(self, request: Any) -> Iterable[Event]:
        """Carries out a request of those that `SERVED_BY` says, and answers it."""
        ...


class Receiver(Protocol):
    def on(self, event: Event) -> Iterable[Event] | None:
        """Receives what `ROUTES` sends its way."""
        ...


class RunSession:
    def __init__(
        self,
        problem: Problem,
        engine: FallibleEngine,
        clock: Clock,
        mailbox: Mailbox,
        *,
        journal: Journal,
        book: Book,
        reviver: Reviver,
        replan: Callable[[Problem], Placement],
        decider: Decider,
        act: Act = "propose",
        guards: GuardOptions | None = None,
        survey: SurveyOptions | None = None,
        options: SessionOptions | None = None,
        carrier: Carrier | None = None,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        """`replan` places what is left of the problem when sites are lost. What `decider` proposes is carried
        out where `act` is "apply" and the guards allow it; `carrier` carries out lists of moves, at once if
        none is given. `alive` is called with every turn, and ends the run by an error if it
        is another one's by now.
        """
        self.state, self.engine, self.clock = RunState(problem), engine, clock
        self.journal, self.book, self._options = journal, book, options or SessionOptions()
        self.lease, self.report = KeptLease(alive), Report(book, clock)
        self.parts = Parts(self.report.note, clock.monotonic_s, lambda: self.lease.sign())
        self.records = Records(self.state, engine, journal)
        self.status = Status(self.state, engine, book, reviver, self.parts, self.report)
        self.replanning = Replanning(self.state, replan, self.parts)
        self.desk = MoveDesk(
            self.state,
            engine,
            journal,
            mailbox,
            carrier or AtOnce(),
            now_s=clock.now_s,
            parts=self.parts,
        )
        self.adaptation = Adaptation(
            self.state,
            decider,
            journal,
            clock,
            act,
            guards or GuardOptions(),
            survey or SurveyOptions(),
            parts=self.parts,
        )
        self.drains = DrainedSites(self.state, engine, journal, self.replanning.planned)
        recovery = Recovery(self.state, self.replanning.replaced, self._options.recovery)
        self.supervisor = Supervisor(self.state, engine, recovery, reviver, self.parts)
        self.watchers: list[Callable[[Look], None]] = []
        self.edit = ""
        """What came of the last edit of the project's settings."""
        self.chores: dict[str, Callable[[], object]] = {}
        """What else is done with every turn, by what it is called where it fails."""
        self.watch, self.executors = Watch(problem), ExecutorCount()
        self.trouble_list = TroubleList(self.state)
        self._unknown: set[str] = set()
        """What could not be measured at the last look."""
        self.pace = LookPace(clock)
        self._began_s = clock.monotonic_s()

    # Beginning and end

    def start(self, placement: Placement, why: str, starts: Collection[str] | None = None) -> None:
        """Carry out a placement, and look after it from now on. Where `starts` names fragments, the others
        are idle until recovery is told to release them. Nothing starts at a site that is kept empty.
        """
        sites, drained = placement.by_fragment(), self.state.drained
        begun = {
            name for name, at in sites.items() if at not in drained and (starts is None or name in starts)
        }
        carry_out(self.engine, placement, begun)
        idle = [name for name in sites if starts is not None and name not in starts]
        self.records.begin(sites, why, idle)
        self._began_s = self.clock.monotonic_s()
        self.pace.begin()
        self.supervisor.recovery.begin(sites, idle)

    def run(self, over: Callable[[float], bool]) -> None:
        """Turn after turn until `over`, given the seconds so far, says so; then a last look. It may be called
        again, to go on.
        """
        self.desk.reopen()
        while not over(self.clock.monotonic_s() - self._began_s):
            self.turn()
            self.clock.sleep(self._options.tick_s)
        self._leave_list()
        self._look()

    # The loop

    def turn(self) -> None:
        """Apply what is asked for and what faults call for; look and trim when it is time to."""
        self._sign()
        self._step("data plane", "answering requests", self._serve)
        self._show_list()
        now_s = self.clock.monotonic_s()
        self._step("data plane", "keeping the run alive", lambda: self.supervisor.tick(now_s))
        self.trouble_list.date_lost_sites(self.clock.now_s())
        if self.records.are_behind:
            self._data_plane("writing the journal", self.records.write_owed)
        for what, do in self.chores.items():
            self._data_plane(what, do)
        if now_s >= self.pace.next_look_s:
            self._step("data plane", "looking after the run", lambda: self.supervisor.look(now_s))
            self._look()
            self.pace.next_look_s = now_s + self._options.look_s
        if now_s >= self.pace.next_trim_s:
            self._data_plane("trimming the channels", self.engine.trim)
            self.pace.next_trim_s = now_s + self._options.trim_s

    def look(self) -> Look:
        """Collect, decide, act where that is allowed, and tell everybody."""
        began_s = self.clock.monotonic_s()
        observation = self._watched(self.collect())
        changes = self.parts.do(
            "measurement", "counting executors", lambda: list(self.executors.take(observation))
        )
        for what in changes or ():
            self.note(what)
        considered = self._decide(observation)
        adapting = self.parts.do(
            "publishing", "showing what is proposed", lambda: self.adaptation.as_json(considered)
        )
        look = Look(
            observation,
            self.adaptation.headroom,
            considered,
            self.adaptation.model,
            self.status.moves(),
            adapting or {},
            dict(self.state.drained),
            self.clock.monotonic_s() - began_s,
            self.edit,
            self._listed(observation),
            tuple(self.report.recent),
            dict(self.records.restarts),
        )
        self.apply(look)
        return look

    def _watched(self, observation: Observation) -> Observation:
        """With what stalls although it runs."""
        stalls = self.parts.do("measurement", "watching for stalls", lambda: self.watch.take(observation))
        self.state.stalls = {each.title: each.words(observation.at_s) for each in stalls or ()}
        return replace(observation, stalls=stalls or ())

    def collect(self) -> Observation:
        """Where nothing could be measured, nothing is known: that is not the same as figures of zero."""
        measured = self.parts.do("measurement", "measuring the run", self.engine.measure)
        if measured is not None:
            for what, why in measured.unknown.items():
                self.parts.failed("measurement", what, why)
            for what in self._unknown - measured.unknown.keys():
                self.parts.works("measurement", what)
            self._unknown = set(measured.unknown)
        return Observation(
            self.clock.now_s(),
            self.engine.homes(),
            measured or Measurement(at_s=self.clock.now_s(), seconds=0.0),
            self.troubles(),
            self.placement(),
            frozenset({*self.state.lost, *self.state.drained}),
            self.state.resting,
        )

    def apply(self, look: Look) -> None:
        """Publish what was found."""
        troubles = self._all_troubles(look.observation)
        self._publish("writing the status", lambda: self.book.write(troubles, look.remarks()))
        for number, watcher in enumerate(self.watchers, start=1):
            self._publish(f"showing the run ({number})", partial(watcher, look))

    def _listed(self, observation: Observation) -> tuple[NamedTrouble, ...]:
        named = self._all_troubles(observation)
        listed = partial(self.trouble_list.take, observation.at_s, named, observation.stalls)
        return self.parts.do("publishing", "listing the troubles", listed) or ()

    def _all_troubles(self, observation: Observation) -> dict[str, str]:
        return {**observation.troubles, **self.state.stalls, **self.parts.troubles()}

    # What else there is to know

    def troubles(self) -> dict[str, str]:
        """What is not as it should be, by the fragment, site or channel concerned."""
        return self.status.troubles()

    def placement(self) -> FragmentSites:
        """Where everything runs, or should: recovery learns of moves a little later."""
        return self.state.placement(self.engine.homes())

    # What changes while it runs

    def adopt(self, problem: Problem) -> None:
        """The same problem with further sites behind those that were known, or over another network. New
        sites count as lost until they are up.
        """
        added = [site.name for site in problem.sites if site.name not in self.state.problem.site_index]
        self.state.problem = self.watch.problem = problem
        self._carry([ProblemChanged(tuple(added))])

    def note(self, what: str) -> None:
        """Something that happened, for the report; what is not shown is lost, and everything else goes on."""
        self._carry([Incident(what)])

    def order(self, moves: Sequence[Move], asked_by: str) -> None:
        """Moves that nobody asked for at the mailbox; refused like any others."""
        self._carry([Order(tuple(moves), asked_by)])

    # Fragments that nobody needs

    def rest(self, fragments: Collection[str], why: str) -> None:
        """Stop fragments on purpose; they stay where they are, and nothing starts them until they wake."""
        self._carry(self.supervisor.rest(fragments, why))

    def wake(self, fragments: Collection[str], sites: Mapping[str, str] | None = None) -> None:
        """Have resting fragments started again, at their site or the one given or, if that is lost,
        elsewhere.
        """
        self._carry(self.supervisor.wake(fragments, self.clock.monotonic_s(), sites))

    def join(self, query: Query, fragments: Collection[str]) -> Joined:
        """Where the fragments of a query that joins go, or why it is rejected, by what was last seen."""
        closed = {*self.state.lost, *self.state.drained}
        homes = self.engine.homes()
        seen = self.state.problem_by_quota
        return joined(seen, self.placement(), homes, fragments, closed, query)

    # Inside

    def _carry(self, events: Iterable[Event]) -> None:
        """Each event goes to all who receive it before whoever yields it goes on."""
        for event in events:
            for route in ROUTES[type(event)]:
                self._receive(route, event)

    def _receive(self, route: EventRoute, event: Event) -> None:
        part: Receiver = getattr(self, route.part)
        self._step(route.kind, route.what, lambda: part.on(event), always=route.kind == "advice")

    def _step(
        self, kind: Kind, what: str, do: Callable[[], Iterable[Event] | None], *, always: bool = False
    ) -> None:
        """Something that a part does. It fails by itself, and so does whoever receives what comes of it."""
        self._carry(self.parts.through(kind, what, do, always=always))

    def _data_plane(self, what: str, do: Callable[[], object]) -> None:
        self.parts.do("data plane", what, do)

    def _publish(self, what: str, do: Callable[[], object]) -> None:
        self.parts.do("publishing", what, do)

    def _sign(self) -> None:
        """A sign of life for the lease. Whether it can be looked up is one matter, whether the run has lost
        its storage another.
        """
        self._data_plane("keeping the lease", self.lease.sign)

    def _look(self) -> None:
        self.parts.do("measurement", "looking at the run", self.look)

    def _serve(self) -> Iterator[Event]:
        if self.desk.owes:
            self.desk.write_owed()
        yield from self.desk.poll()
        served = False
        for request in self.desk.requests():
            served = True
            self._serve_one(request)
            yield from self.desk.poll()
        if served:
            self._publish("removing old answers", self.desk.mailbox.sweep)

    def _serve_one(self, request: Request) -> None:
        server: Server = getattr(self, SERVED_BY[type(request)])
        try:
            self._carry(server.serve(request))
        except OvertakenError:
            raise
        except Exception as failure:  # it is taken out of the box, so nobody else answers it
            self.desk.refuse(request.id, f"it cannot be carried out: {described(failure)}")
            self.parts.failed("data plane", "carrying out a request", failure)

    def _decide(self, observation: Observation) -> Considered:
        decided: list[Considered] = []

        def consider() -> Iterator[Event]:
            decided.append((yield from self.adaptation.consider(observation)))

        self._step("advice", "deciding", consider)
        if decided:
            return decided[0]
        return Considered(None, (), f"deciding failed: {self.troubles().get('advice: deciding', '')}")

    def _show_list(self) -> None:
        if self.status.is_behind:
            self._publish("amending the status", self.status.amend)

    def _leave_list(self) -> None:
        """The run ends: see the move that is under way to its end, in bounded time."""
        self.desk.halt()
        self._step("data plane", "answering requests", self._serve)
        until_s = self.clock.monotonic_s() + self._options.list_patience_s
        while self.desk.busy and self.clock.monotonic_s() < until_s:
            self._sign()
            self._step("data plane", "answering requests", self._serve)
            self._show_list()
            self.clock.sleep(self._options.tick_s)
        if (left := self.status.moves()) is not None:
            self.desk.abandon()
            what = f"the move of {left.get('fragment')} to {left.get('to')} did not end in time"
            self.note(f"{what}: the next run decides by the journal")
