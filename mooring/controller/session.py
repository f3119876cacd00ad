"""A run as one object: collect -> evaluate -> decide -> apply, again and again.

It is made from a problem, an engine, a clock and a mailbox, and cannot tell Spark from the simulator by them.
It owns what a run needs beside: the journal of what was done, the recovery from faults, the desk that
answers requests for moves, and the decider whose proposals it publishes. Who shows or steers a run (the
command line, a web page, a test) does it through this object.

Whatever is done in a turn is a part of the run that fails by itself (`parts.py`): advice, measurement and
publishing end neither the run nor a turn of its data plane.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from mooring.controller.adaptation import Act, Adaptation, Considered
from mooring.controller.carrying import AtOnce, Carrier
from mooring.controller.deciding.decider import Decider, Observation
from mooring.controller.deciding.evaluation import Evaluation, Evaluator
from mooring.controller.deciding.guards import GuardOptions
from mooring.controller.deciding.headroom_decider import HeadroomDecider
from mooring.controller.deciding.surveyor import SurveyOptions
from mooring.controller.journal import Journal
from mooring.controller.ledger import LedgerEntry
from mooring.controller.left_sites import DrainedSites
from mooring.controller.looks import Book, Look
from mooring.controller.move_desk import MoveDesk
from mooring.controller.recovery import Incident, Recovery, RecoveryOptions
from mooring.controller.replacement import replace_lost
from mooring.controller.run_state import MovesUnderWay, RunState
from mooring.controller.supervision import Reviver, Supervisor
from mooring.deployment.carry_out import carry_out
from mooring.deployment.clock import Clock
from mooring.deployment.engine import LOOK_S, FallibleEngine, Measurement, MoveReport
from mooring.deployment.moves import Move
from mooring.deployment.parts import Parts
from mooring.deployment.requests import DismissRequest, Mailbox, shown_asker
from mooring.errors import EngineError, MooringError, OvertakenError, described
from mooring.placement.placement import FragmentSites, Placement
from mooring.problem.problem import Problem


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
        decider: Decider | None = None,
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
        self.journal, self.book = journal, book
        self._replan, self._alive, self._options = replan, alive, options or SessionOptions()
        self.parts = Parts(self.note, clock.monotonic_s, alive)
        self.desk = MoveDesk(
            self.state,
            engine,
            journal,
            mailbox,
            carrier or AtOnce(),
            now_s=clock.now_s,
            moved=self._publish_placement,
            done=self._moved,
            parts=self.parts,
            begun=lambda moves, asked_by: self.adaptation.asked_for(moves, asked_by, clock.now_s()),
            on_dismiss=self._dismissed,
            on_site=lambda request: self.drains.serve(request),
        )
        self.adaptation = Adaptation(
            self.state,
            decider or HeadroomDecider(),
            self.desk,
            act,
            guards or GuardOptions(),
            survey or SurveyOptions(),
            past_moves=journal.past_moves,
            tell=self.note,
            note=self._note_entry,
            parts=self.parts,
        )
        self.drains = DrainedSites(
            self.state,
            journal,
            self.desk,
            where=self.placement,
            replan=self._planned,
            stand_still=self._stand_still,
            tell=self.note,
        )
        recovery = Recovery(self.state, self._replaced, self._options.recovery, self._tell)
        self.supervisor = Supervisor(
            self.state,
            engine,
            recovery,
            reviver,
            changed=self._recovered,
            noticed=self._noticed,
            alive=self._sign,
            parts=self.parts,
        )
        self.watchers: list[Callable[[Look], None]] = []
        self.edit = ""
        """What came of the last edit of the project's settings."""
        self.chores: dict[str, Callable[[], object]] = {}
        """What else is done with every turn, by what it is called where it fails."""
        self._evaluator = Evaluator(problem)
        self._unnoted: dict[str, str] = {}
        """Fragments that were started elsewhere, while the journal does not know."""
        self._first_at: dict[str, str] = {}
        """Fragments that have not been started yet -> where the journal has them."""
        self._unknown: set[str] = set()
        """What could not be measured at the last look."""
        self._untold = ""
        """Why the last thing that happened could not be reported."""
        self._list_shown: MovesUnderWay | None = None
        self._made_s = clock.monotonic_s()  # what happens is dated from here on, as the engine's looks are
        self._began_s = self._next_look_s = self._next_trim_s = self._made_s

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
        self.journal.note_placement(sites, why)
        self._began_s = self._next_look_s = self._next_trim_s = self.clock.monotonic_s()
        self._first_at = {name: at for name, at in sites.items() if starts is not None and name not in starts}
        self.supervisor.recovery.begin(sites, idle=tuple(self._first_at))

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
        self._data_plane("answering requests", self._serve)
        self._show_list()
        now_s = self.clock.monotonic_s()
        self._data_plane("keeping the run alive", lambda: self.supervisor.tick(now_s))
        if self._unnoted:
            self._data_plane("writing the journal", self._note_placement)
        for what, do in self.chores.items():
            self._data_plane(what, do)
        if now_s >= self._next_look_s:
            self._data_plane("looking after the run", lambda: self.supervisor.look(now_s))
            self._look()
            self._next_look_s = now_s + self._options.look_s
        if now_s >= self._next_trim_s:
            self._data_plane("trimming the channels", self.engine.trim)
            self._next_trim_s = now_s + self._options.trim_s

    def look(self) -> Look:
        """Collect, evaluate, decide, act where that is allowed, and tell everybody."""
        began_s = self.clock.monotonic_s()
        observation = self.collect()
        evaluation = self.parts.do(
            "advice", "evaluating the rates", lambda: self._evaluator.evaluate(observation)
        )
        considered = self.parts.do(
            "advice", "deciding", lambda: self.adaptation.consider(observation, self.state.busy)
        ) or Considered(None, (), f"deciding failed: {self.troubles().get('advice: deciding', '')}")
        adapting = self.parts.do(
            "publishing", "showing what is proposed", lambda: self.adaptation.as_json(considered)
        )
        look = Look(
            observation,
            evaluation or Evaluation({}),
            considered,
            self._shown_moves(),
            adapting or {},
            dict(self.state.drained),
            self.clock.monotonic_s() - began_s,
            self.edit,
        )
        self.apply(look)
        return look

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
        troubles = {**look.observation.troubles, **self.parts.troubles()}
        self._publish("writing the status", lambda: self.book.write(troubles, look.remarks()))
        for number, watcher in enumerate(self.watchers, start=1):
            self._publish(f"showing the run ({number})", partial(watcher, look))

    # What else there is to know

    def troubles(self) -> dict[str, str]:
        """What is not as it should be, by the fragment, site or channel concerned."""
        found = self.supervisor.troubles()
        if self._untold:
            found["publishing: reporting what happens"] = self._untold
        return {what: why for what, why in found.items() if what not in self.state.resting}

    def placement(self) -> FragmentSites:
        """Where everything runs, or should: recovery learns of moves a little later."""
        return self.state.placement(self.engine.homes())

    # What changes while it runs

    def adopt(self, problem: Problem) -> None:
        """The same problem with further sites behind those that were known, or over another network. New
        sites count as lost until they are up.
        """
        added = [site.name for site in problem.sites if site.name not in self.state.problem.site_index]
        self.state.problem = problem
        self.adaptation.adopt(problem)
        self._evaluator = Evaluator(problem)
        for site in added:
            self.supervisor.expect(site)

    def note(self, what: str) -> None:
        """Something that happened, for the report; what is not shown is lost, and everything else goes on."""
        try:
            self.book.incident(self.clock.monotonic_s() - self._made_s, what)
        except OvertakenError:
            raise
        except Exception as failure:
            self._untold = described(failure)
        else:
            self._untold = ""

    # Fragments that nobody needs

    def rest(self, fragments: Collection[str], why: str) -> None:
        """Stop fragments on purpose; they stay where they are, and nothing starts them until they wake."""
        self.supervisor.rest(fragments, why)

    def wake(self, fragments: Collection[str]) -> None:
        """Have resting fragments started again, at their site or, if that is lost, elsewhere."""
        self.supervisor.wake(fragments, self.clock.monotonic_s())

    # Inside

    def _data_plane(self, what: str, do: Callable[[], object]) -> None:
        self.parts.do("data plane", what, do)

    def _publish(self, what: str, do: Callable[[], object]) -> None:
        self.parts.do("publishing", what, do)

    def _sign(self) -> None:
        """A sign of life for the lease. Whether it can be looked up is one matter, whether the run has lost
        its storage another.
        """
        self._data_plane("keeping the lease", self._alive)

    def _look(self) -> None:
        self.parts.do("measurement", "looking at the run", self.look)

    def _replaced(self, sites: FragmentSites, lost: Collection[str]) -> FragmentSites:
        seen = self.parts.do("advice", "going by the measured rates", lambda: self.state.problem_as_seen)
        try:
            return replace_lost(seen or self.state.problem, sites, lost, self._planned)
        except (MooringError, OvertakenError):
            raise
        except Exception as failure:  # what was measured fits no load model: go by what the problem states
            self.parts.failed("advice", "going by the measured rates", failure)
            return replace_lost(self.state.problem, sites, lost, self._planned)

    def _planned(self, problem: Problem) -> Placement:
        """By the policy; one that raises what it should not is reported, and taken for one without a plan."""
        try:
            return self._replan(problem)
        except MooringError:
            raise
        except Exception as failure:
            self.parts.failed("advice", "placing what has no site", failure)
            raise EngineError(f"the policy failed: {described(failure)}") from failure

    def _stand_still(self, site: str, fragments: Collection[str]) -> None:
        """Stop what may run nowhere else; it waits until its site is used again."""
        self.supervisor.stand_still(site, fragments, self.clock.monotonic_s())

    def _recovered(self, started: FragmentSites) -> None:
        """All that was due has been started."""
        self._unnoted |= {name: at for name, at in started.items() if self._first_at.pop(name, None) != at}
        if self._unnoted:
            self._data_plane("writing the journal", self._note_placement)
        self._data_plane("holding sites to their capacity", self.engine.settled)
        self._advise(lambda: self.adaptation.recovered(self.clock.now_s()))
        self._publish_placement(self.placement())

    def _note_placement(self) -> None:
        """A full disk keeps the journal behind; it is written as soon as there is room."""
        self.journal.note_relocated(self._unnoted, self.placement(), "started again after a fault")
        self._unnoted = {}

    def _moved(self, reports: Sequence[MoveReport], asked_by: str) -> None:
        # A site that joined or came back gets no more than its capacity from now on.
        self._data_plane("holding sites to their capacity", self.engine.settled)
        self._advise(
            lambda: self.adaptation.moved([report.fragment for report in reports], self.clock.now_s())
        )
        at_s = self.clock.monotonic_s() - self._made_s
        self._publish("writing the report", lambda: self.book.moved(at_s, reports, asked_by))

    def _advise(self, do: Callable[[], object]) -> None:
        """Tell the advisers of something that happened. They must not miss it because they failed before."""
        try:
            do()
        except OvertakenError:
            raise
        except Exception as failure:
            self.parts.failed("advice", "following what happened", failure)
        else:
            self.parts.works("advice", "following what happened")

    def _publish_placement(self, sites: FragmentSites) -> None:
        self._publish("showing the placement", lambda: self.book.placed(sites))

    def _dismissed(self, request: DismissRequest) -> None:
        asked_by = shown_asker(request.asked_by)
        self.journal.append("dismissed", moves=[list(move) for move in request.moves], asked_by=asked_by)
        self.adaptation.dismiss([Move(*move) for move in request.moves], asked_by, self.clock.now_s())
        self.desk.answer(request.id, "done")
        self._next_look_s = self.clock.monotonic_s()

    def _note_entry(self, entry: LedgerEntry) -> None:
        """What a list promised and what came of it. A journal without room is no reason to stop."""
        self._data_plane("writing the ledger", lambda: self.journal.append("ledger", **entry.as_json()))

    def _shown_moves(self) -> Mapping[str, object] | None:
        return None if self.state.moves is None else self.state.moves.as_json()

    def _serve(self) -> None:
        if self.desk.serve():
            self._next_look_s = self.clock.monotonic_s()

    def _show_list(self) -> None:
        """How far the list under way is, as soon as that changes."""
        if (now := self.state.moves) != self._list_shown:
            self._list_shown = now
            self._noticed()

    def _leave_list(self) -> None:
        """The run ends: see the move that is under way to its end, in bounded time."""
        self.desk.halt()
        self._data_plane("answering requests", self._serve)
        until_s = self.clock.monotonic_s() + self._options.list_patience_s
        while self.desk.busy and self.clock.monotonic_s() < until_s:
            self._sign()
            self._data_plane("answering requests", self._serve)
            self._show_list()
            self.clock.sleep(self._options.tick_s)
        if (left := self._shown_moves()) is not None:
            self.desk.abandon()
            what = f"the move of {left.get('fragment')} to {left.get('to')} is not waited for any longer"
            self._tell(Incident(self.clock.monotonic_s(), f"{what}: the next run decides by the journal"))

    def _noticed(self) -> None:
        self._publish(
            "amending the status",
            lambda: self.book.noticed(self.engine.homes(), self.troubles(), self._shown_moves()),
        )

    def _tell(self, incident: Incident) -> None:
        """Dated now: the turn may have begun long ago, where a site did not answer."""
        self.note(incident.what)
