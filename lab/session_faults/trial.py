"""One schedule carried out: processes one after another, or beside each other, and what must hold of them.

While a process stands still or its threads interleave, the others run inside the call that it is in: so
there is one thread, and a schedule gives the same run each time.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lab.faults.checkers import Violation
from lab.faults.shrink import with_simpler, without_needless
from lab.session_faults.process import TICK_S, Died, Process
from lab.session_faults.promises import Promises
from lab.session_faults.schedule import (
    Crash,
    Event,
    Freeze,
    Leave,
    Move,
    Schedule,
    SiteFault,
    Stop,
    Turn,
    simpler,
)
from lab.session_faults.world import Violated, World
from mooring.controller.initial_placement import Wish
from mooring.controller.move_list import resume
from mooring.errors import MooringError, OvertakenError, described
from mooring.model.deployment import moves as deployment
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.simulator.runs.memory_mailbox import Tray

PROBLEM = Problem.from_dict(
    {
        "sites": {name: {"capacity": 4} for name in "abc"},
        "streams": {"x": {"rate": 10}},
        "operators": {
            "f": {"inputs": ["x"], "cost_us": 100},
            "g": {"inputs": ["f"], "cost_us": 100},
            "h": {"inputs": ["x"], "cost_us": 100, "site": "c"},
        },
        "queries": {"q": {"reads": "g", "site": "a"}},
    }
)
FRAGMENTS, SITES = PROBLEM.fragment_names, tuple(PROBLEM.site_index)
READS: Mapping[str, str | None] = {"f": None, "g": "f", "h": None}
FIRST = FragmentSites({"f": "a", "g": "a", "h": "c"})
SECOND = FragmentSites({"f": "b", "g": "a", "h": "c"})
"""What a new plan chooses."""
SETTLE_S = 9.0
PATIENCE_S = 40.0
_AGREED_S = 1.0
"""Of agreement between everything, at the end."""
_AWAKE_TURNS = 8
"""Within which a process that was overtaken has ended."""


def _with(sites: FragmentSites) -> Wish:
    return Wish("rod", placement=lambda problem: Placement.from_fragments(problem, sites))


@dataclass(frozen=True)
class Outcome:
    effects: tuple[str, ...]
    digest: str
    violation: Violation | None
    trace: tuple[str, ...]


class _Trial:
    def __init__(self, schedule: Schedule, root: Path, process: type[Process]) -> None:
        self.schedule, self._make = schedule, process
        self.world = World(root, SITES, dict(READS))
        self.tray = Tray()
        self.promises = Promises(self.tray)
        self.effects: list[str] = []
        self.owner: Process | None = None
        self.processes: list[Process] = []
        self._at: dict[tuple[int, int], list[Event]] = {}
        for event in schedule.events:
            if isinstance(event, Crash | Freeze | Turn | SiteFault):
                self._at.setdefault((event.of, event.at), []).append(event)
        self._begun = [0]
        """How many effects there were before the run, and before each list of moves."""
        timed = [event for event in schedule.events if isinstance(event, Move | Leave | Stop)]
        self._timed = sorted(timed, key=lambda event: event.at_s)
        self._healing: list[tuple[float, str]] = []
        self._replan = False
        self._over = False

    # Life

    def live(self) -> None:
        while self.world.now_s < self.schedule.end_s:
            if self.owner is None or self.owner.dead:
                self._begin()
            else:
                self._turn(self.owner)
        self._over = True
        for site in SITES:
            self._heal(site)
        self._settle()

    def _begin(self, *, standby: bool = False) -> Process | None:
        """The next process; None if it did not come to anything."""
        number = len(self.processes) + 1
        process = self._make(self.world, PROBLEM, self.tray, self, number, standby=standby)
        self.processes.append(process)
        self.world.say(f"process {number} begins")
        first = not self.world.queries
        wish = _with(FIRST) if first else _with(SECOND) if self._replan else Wish("rod")
        self.owner = process
        try:
            process.begin(wish)
            self._outlived(process)
        except Died:
            self._died(process)
            return None
        except OvertakenError:
            self._ended(process)
            return None
        except MooringError as refusal:
            self._refused(process, refusal)
            return None
        self._replan = False
        return process

    def _refused(self, process: Process, refusal: MooringError) -> None:
        """A site that does not answer is a cause, and so is one that a placement names but is kept empty."""
        self._ended(process)
        down = [site for site, condition in self.world.condition.items() if condition != "up"]
        kept_empty = self._replan and "kept empty" in str(refusal)
        if process.own_newest() and not down and not kept_empty:
            raise Violated("no refusal without cause", str(refusal)) from refusal
        self._replan = False
        self.world.pass_s(TICK_S)
        self._tick()

    def _turn(self, process: Process) -> None:
        try:
            self._tick()
            if self._stops(process):
                return
            process.turn()
            self._outlived(process)
        except Died:
            self._died(process)
        except OvertakenError:
            self._ended(process)
        except MooringError:
            if process.own_newest():
                raise
            self._ended(process)

    def _outlived(self, process: Process) -> None:
        """One that was overtaken while it stood still soon ends by itself."""
        for _ in range(_AWAKE_TURNS):
            if self.owner is process:
                return
            process.turn()
        raise Violated("an overtaken process ends", f"process {process.number} goes on")

    def _died(self, process: Process) -> None:
        process.die()

    def _ended(self, process: Process) -> None:
        """By itself: what it still held is let go of, as by its end."""
        self.world.say(f"process {process.number} ends")
        self._died(process)

    def _stops(self, process: Process) -> bool:
        stop = self._timed[0] if self._timed else None
        if isinstance(stop, Stop) and stop.at_s <= self.world.now_s:
            self._timed.pop(0)
            self._replan = stop.replan
        elif not process.ending:
            return False
        try:
            process.end()
        finally:
            self._died(process)
        return True

    def _tick(self) -> None:
        """What was due."""
        for until_s, site in [each for each in self._healing if each[0] <= self.world.now_s]:
            self._healing.remove((until_s, site))
            self._heal(site)
        while self._timed and self._timed[0].at_s <= self.world.now_s:
            event = self._timed[0]
            if isinstance(event, Stop):
                return
            self._timed.pop(0)
            self._ask(event)

    def _heal(self, site: str) -> None:
        if self.world.condition[site] != "up":
            self.world.change(site, "up")

    def _ask(self, event: Move | Leave) -> None:
        process = self.owner
        if process is None or process.dead:
            return
        self.world.say(f"asked: {event}")
        if isinstance(event, Leave):
            site = SITES[event.site]
            self.promises.vague |= set(FRAGMENTS)
            if event.back:
                self.tray.ask_return(site)
            else:
                self.tray.ask_leave(site, force=True)
            return
        old = process.engine.homes()
        moves = [
            deployment.Move(FRAGMENTS[f], old[FRAGMENTS[f]], SITES[to])
            for f, to in event.moves
            if FRAGMENTS[f] in old and old[FRAGMENTS[f]] != SITES[to]
        ]
        if moves:
            self.promises.asked(self.tray.ask(old, moves), old, moves)

    # Faults

    def did(self, process: Process, what: str, *, in_thread: bool, fields: Mapping[str, object]) -> None:
        if what == "journal list":
            self._begun.append(len(self.effects))
        self.effects.append(f"{process.number} {what}")
        self.world.say(f"{len(self.effects)}: process {process.number}: {what}")
        if self._replan and what == "journal placement":
            self.promises.forget()  # somebody gave another one, and it counts, even if this process dies here
        self.promises.heard(process, what, fields)
        if self._over:
            return
        due = [(of, len(self.effects) - begun) for of, begun in enumerate(self._begun)]
        for event in [event for key in due for event in self._at.get(key, ())]:
            match event:
                case SiteFault():
                    if self.world.condition[SITES[event.site]] == "up":
                        self.world.change(SITES[event.site], event.condition)
                        self._healing.append((self.world.now_s + event.for_s, SITES[event.site]))
                case Turn() if in_thread and process.carrying and not process.nested:
                    self._nested(process, event)
                case Turn(of=of):  # not inside a list, or where its thread lets nobody else go on
                    later = of, len(self.effects) - self._begun[of] + 1
                    self._at.setdefault(later, []).append(event)
                case Freeze() if process is self.owner:
                    self._frozen(process, event)
                case Crash() if process is self.owner:
                    self._crash(process, event, what)
                case _:
                    pass

    def _crash(self, process: Process, event: Crash, what: str) -> None:
        self.world.say(f"process {process.number} dies")
        process.die()
        if event.torn and what.startswith("journal"):
            file = process.journal.file
            content = file.read_bytes()
            file.write_bytes(content[: -min(9, len(content))])
        self.world.pass_s(event.down_s)
        raise Died

    def _nested(self, process: Process, event: Turn) -> None:
        process.nested = True
        self.world.say(f"the loop of process {process.number} goes on beside the list")
        try:
            if event.abort:
                self.promises.aborted()
                self.tray.ask_abort()
            if event.halt:
                process.session.desk.halt()
                process.ending = True
                self.promises.aborted()
            for _ in range(3):
                process.turn()
        finally:
            process.nested = False

    def _frozen(self, process: Process, event: Freeze) -> None:
        """A standby takes over and runs for a while, before the process goes on where it was."""
        self.world.say(f"process {process.number} stands still")
        process.stand_still()
        until_s = None
        while until_s is None or self.world.now_s < until_s:
            if self.owner is process or self.owner is None or self.owner.dead:
                self._begin(standby=True)
            elif until_s is None:
                until_s = self.world.now_s + event.for_s
            else:
                self._turn(self.owner)
        self.world.say(f"process {process.number} goes on")
        process.go_on()

    # The end

    def _settle(self) -> None:
        """Everything is up again, nobody asks for anything: soon all agree, and stay so."""
        began_s, agreed_s, why = self.world.now_s, None, ""
        offered = int(began_s * 10)
        while self.world.now_s - began_s < PATIENCE_S:
            if self.owner is None or self.owner.dead:
                self._begin()
                continue
            self._turn(self.owner)
            why = self._disagreement(offered) if self.owner is not None else "nobody runs"
            if why:
                agreed_s = None
            elif agreed_s is None:
                agreed_s = self.world.now_s
            elif self.world.now_s - agreed_s >= _AGREED_S:
                break
        else:
            raise Violated("all agree in the end", why)
        assert self.owner is not None
        if wrong := self.promises.broken(self.owner.session.placement()):
            raise Violated("no move is lost or done twice", wrong)

    def _disagreement(self, offered: int) -> str:
        process = self.owner
        assert process is not None
        said, homes = process.session.placement(), process.engine.homes()
        left = process.session.state.drained
        for name in FRAGMENTS:
            waits = said[name] in left and name == FRAGMENTS[-1]
            able = [query.site for query in self.world.committing(name)]
            if able != ([] if waits else [said[name]]):
                return f"{name} is said to be at {said[name]} and commits at {able or 'none'}"
            if not waits and self.world.sinks[name].rows < offered:
                return f"{name} has written {self.world.sinks[name].rows} of {offered} rows"
            if len(alive := self.world.alive(name)) > len(able):
                return f"{', '.join(query.session for query in alive)} still run"
            if not waits and homes.get(name) != said[name]:
                return f"{name} is said to be at {said[name]}; the engine has {homes.get(name)}"
        found = resume(process.journal)
        if found is None or found.placement != said:
            return f"the journal has {found and found.placement}, the session {said}"
        if troubles := {w: t for w, t in process.session.troubles().items() if "kept empty" not in t}:
            return f"troubles: {troubles}"
        return ""


def carried_out(schedule: Schedule, process: type[Process] = Process) -> Outcome:
    """The same for the same schedule, each time."""
    root = Path(tempfile.mkdtemp(prefix="session-faults-", dir=_MEMORY))
    trial = _Trial(schedule, root, process)
    violation = None
    try:
        trial.live()
    except Violated as violated:
        violation = Violation(violated.invariant, 1000.0 * trial.world.now_s, violated.what)
    except Exception as failure:  # of the session: nothing that happens to it may end it so
        violation = Violation("nothing ends a run", 1000.0 * trial.world.now_s, described(failure))
    finally:
        for each in trial.processes:
            with suppress(BaseException):
                each.die()
        shutil.rmtree(root, ignore_errors=True)
    text = "\n".join(trial.world.trace).encode()
    digest = hashlib.blake2b(text, digest_size=16).hexdigest()
    return Outcome(tuple(trial.effects), digest, violation, tuple(trial.world.trace))


_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


_MOST_EARLIER = 40
"""Effects: about those of a process that begins, or of a list of two moves."""


def _earlier(event: Event, by: int) -> Event:
    if isinstance(event, Crash | Freeze | Turn | SiteFault):
        return msgspec.structs.replace(event, at=max(event.at - by, 1))
    return event


def shrunk(schedule: Schedule, process: type[Process] = Process) -> tuple[Schedule, Outcome]:
    """The smallest schedule found that still breaks the same invariant."""
    first = carried_out(schedule, process).violation
    assert first is not None

    def fails(events: list[Event]) -> bool:
        found = carried_out(Schedule(tuple(events), schedule.end_s), process).violation
        return found is not None and found.checker == first.checker

    events = without_needless(list(schedule.events), fails)
    for position in reversed(range(len(events))):  # it may be there only to have a fault at its number
        rest = events[:position] + events[position + 1 :]
        earlier = ([_earlier(each, by) for each in rest] for by in range(1, _MOST_EARLIER))
        events = next((sooner for sooner in earlier if fails(sooner)), events)
    events = with_simpler(events, fails, simpler)
    small = Schedule(tuple(events), schedule.end_s)
    return small, carried_out(small, process)
