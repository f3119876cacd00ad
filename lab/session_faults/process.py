"""One process that runs the pipeline: shipped ownership, journal, session, engine and moves over the world.

Of what ships, only what talks to Spark is replaced: preparing and launching a query, its session, its
progress. Whatever changes something outside the process is an effect, after which the process may be dead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar, cast

from lab.session_faults.world import Query, Violated, World
from mooring.algorithms.baselines.none_decider import NoneDecider
from mooring.contracts.engine import Measurement, MoveReport, Trouble
from mooring.contracts.mailbox import Request
from mooring.controller.initial_placement import Beginning, Wish, begin
from mooring.controller.journal import Journal
from mooring.controller.move_list import AtOnce
from mooring.controller.recovery import RecoveryOptions
from mooring.controller.session import RunSession, SessionOptions
from mooring.disk import DISK, Disk
from mooring.errors import EngineError, SiteLostError
from mooring.model.placement.placement import FragmentSites
from mooring.model.problem.problem import Problem
from mooring.simulator.runs.memory_mailbox import Tray
from mooring.spark.engine.engine import SparkEngine
from mooring.spark.engine.fragment_query import RunningFragment, fence
from mooring.spark.engine.fragment_registry import OpenSession, Roster
from mooring.spark.engine.health import Health
from mooring.spark.engine.lifecycle import Lifecycle
from mooring.spark.engine.moving import Mover
from mooring.spark.engine.site_clocks import SiteClocks
from mooring.spark.ownership.lease import Claim
from mooring.spark.ownership.lease_renewal import Pulse
from mooring.spark.ownership.owner import Ownership
from mooring.spark.runs.left_sessions import LeftSessions
from mooring.spark.sites.endpoint import close_session
from mooring.spark.sites.site_calls import SiteCalls
from mooring.spark.sites.sites import SiteHandles
from mooring.spark.storage.fencing import current_epoch, newest_number
from mooring.spark.storage.owned_folder import OwnedFolder

LEASE_S = 4.0
TICK_S = 0.4
COMPACT_AT_BYTES = 6000
"""Small enough for a journal to be compacted in a schedule that moves much."""
OPTIONS = SessionOptions(
    tick_s=TICK_S,
    look_s=1.0,
    trim_s=1e9,
    recovery=RecoveryOptions(first_pause_s=0.4, longest_pause_s=2.0, flapping_s=5.0, longest_hold_s=2.0),
)
T = TypeVar("T")


class Died(BaseException):
    """The process is gone: nothing of it may tidy up."""


class Watch(Protocol):
    """The schedule, as a process meets it."""

    def did(self, process: Process, what: str, *, in_thread: bool, fields: Mapping[str, object]) -> None:
        """Called after each effect. `in_thread`: other threads of the process could go on at that point."""
        ...


@dataclass
class _Client:
    """Of a session at a site. Closing it ends its queries, if the site can be reached."""

    world: World
    site: str
    queries: list[Query] = field(default_factory=list)

    def release_session(self) -> None:
        if self.world.condition[self.site] in ("up", "late"):
            for query in self.queries:
                query.alive = False
        else:
            raise ConnectionError(self.site)

    def close(self) -> None: ...


@dataclass
class _Session:
    client: _Client
    closed: Callable[[], None]

    def stop(self) -> None:
        self.closed()


class _AskedQuery:
    """A query as its process sees it."""

    def __init__(self, query: Query, did: Callable[[str], None]) -> None:
        self.query, self._did = query, did

    @property
    def isActive(self) -> bool:
        return self.query.alive

    def exception(self) -> Exception | None:
        return RuntimeError(self.query.failure) if self.query.failure else None

    @property
    def status(self) -> dict[str, Any]:
        """Who asks again and again waits: it comes to the end of what there is."""
        while self.query.alive and self.query.step():
            pass
        return {"isTriggerActive": False, "isDataAvailable": False, "message": "Waiting for data"}

    @property
    def recentProgress(self) -> Sequence[Any]:
        return []

    def stop(self) -> None:
        self.query.alive = False
        self._did(f"stop {self.query.fragment} at {self.query.site}")


class _Calls(SiteCalls):
    """The same calls without lanes: virtual time passes for nobody while a site is asked."""

    def __init__(self, process: Process) -> None:
        super().__init__(5.0)
        self._process, self._world = process, process.world

    def ask(
        self,
        site: str,
        call: Callable[[], T],
        patience_s: float | None = None,
        late: Callable[[T], object] = lambda answer: None,
        *,
        jobs: bool = False,
    ) -> T:
        if self._closed:
            raise EngineError(f"the run is over: it sends no more calls to the site {site!r}")
        condition = self._world.condition[site]
        if condition == "up":
            return call()
        if condition == "late":
            answer = call()
            self._world.late.append((site, lambda: None if self._process.dead else late(answer)))
        raise SiteLostError(f"the site {site!r} does not answer: it is {condition}")


@dataclass
class _Layout:
    """What starting, moving and inspecting fragments ask of a layout."""

    owned: OwnedFolder
    root: Path
    fragments: Mapping[str, Any]
    pipeline: Any
    project: Any
    channels: Mapping[str, Any] = field(default_factory=dict)
    disk: Disk = DISK

    def moves_as(self, fragment: str) -> str:
        return "stateless"

    def checkpoints(self, fragment: str) -> Path:
        return self.owned.checkpoints / fragment

    def checkpoint(self, fragment: str) -> Path:
        return current_epoch(self.checkpoints(fragment))


@dataclass
class _Prepared:
    process: Process
    fragment: Any
    site: str
    session: _Session
    session_id: str
    closed: bool = False
    to_the_end: bool = False
    starter: None = None
    checkpoint: Path | None = None

    def fence(self) -> None:
        self.checkpoint = self.process.fenced(self.fragment.name)
        self.process.did(f"fence {self.fragment.name}", storage=True)

    def launch(self) -> RunningFragment:
        assert self.checkpoint is not None, "launched before the fence"
        process, name = self.process, self.fragment.name
        if not self.checkpoint.is_dir():
            raise EngineError(f"the checkpoint of {name!r} is gone")
        query = Query(name, self.site, self.session_id, self.checkpoint, process.world)
        process.world.queries.append(query)
        self.session.client.queries.append(query)
        process.world.look()
        process.did(f"launch {name} at {self.site}", in_thread=True)
        asked = _AskedQuery(query, lambda what: process.did(what, in_thread=True))
        return RunningFragment(name, self.site, cast(Any, self.session), self.session_id, asked)

    def discard(self) -> None:
        self.closed = close_session(cast(Any, self.session))


@dataclass(frozen=True)
class _Lifecycle(Lifecycle):
    process: Process = field(kw_only=True)

    def prepare(self, fragment: str, site: str) -> Any:
        """Without the site's analysis, which changes nothing."""

        def open_session() -> _Prepared:
            client = _Client(self.process.world, site)
            closed = _Session(client, lambda: self.process.did(f"close {fragment} at {site}", in_thread=True))
            name = self.process.world.session_name(fragment, site, self.process.number)
            return _Prepared(self.process, self.layout.fragments[fragment], site, closed, name)

        return self.calls.ask(site, open_session, late=lambda prepared: prepared.discard())

    def start_all(self, sites: FragmentSites) -> None:
        """One site after the other: threads would make the same seed give different runs."""
        for fragment, site in sites.items():
            self.start(fragment, site)


class _Progress:
    def __init__(self) -> None:
        self.odd: dict[str, str] = {}

    def restarted(self, fragment: str) -> None: ...
    def take(self, running: RunningFragment) -> None: ...
    def state_bytes(self, fragment: str) -> float:
        return 0.0

    def batch_s(self, fragment: str) -> float | None:
        return None


class _Warmth:
    def ensure(self, prepared: object, endpoint: object, **known: object) -> bool:
        return False

    def note(self, site: str, endpoint: object, fragment: str, *, stateful: bool) -> None: ...


class _Beside:
    """A thread beside a move goes on at once, or not before the move waits for it."""

    def __init__(self) -> None:
        self._begun = 0

    def begin(self, work: Callable[[], None]) -> Future[None]:
        self._begun += 1
        return AtOnce().begin(work) if self._begun % 2 else _Later(work)


class _Later(Future[None]):
    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__()
        self._work = work

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self.done():
            try:
                self._work()
            except Exception as failure:
                self.set_exception(failure)
            else:
                self.set_result(None)
        return super().exception(timeout)


class _Engine(SparkEngine):
    """The shipped engine over what the world has: starting, moving, stopping and inspecting are its own."""

    def __init__(self, process: Process, note: Callable[[Sequence[OpenSession]], None]) -> None:
        world, layout = process.world, cast(Any, process.layout)
        self.world, self.layout, self.sites = world, layout, process.handles
        self._to_the_end = False
        self.calls, self._move_calls = _Calls(process), _Calls(process)
        self.roster = Roster(note)
        self.progress = cast(Any, _Progress())
        self.warmth = cast(Any, _Warmth())
        self._fencing = threading.Lock()

        def lifecycle(calls: SiteCalls) -> _Lifecycle:
            return _Lifecycle(
                layout,
                self.sites,
                calls,
                self.roster,
                self.progress,
                self.warmth,
                False,
                cast(Any, None),
                process=process,
            )

        self._lifecycle = lifecycle(self.calls)
        self._mover = Mover(
            lifecycle(self._move_calls),
            now_s=lambda: process.world.now_s,
            wait_s=process.world.pass_s,
            beside=_Beside(),
        )
        clocks = SiteClocks(self.sites, layout.owned.out, layout.disk)
        self._health = Health(layout, self.sites, self.calls, self.roster, clocks)

    def start_all(self, sites: FragmentSites) -> None:
        self._lifecycle.start_all(sites)

    def settled(self) -> None: ...

    def lost_channels(self) -> dict[str, str]:
        return {}

    def users_of(self, channel: str) -> list[str]:
        return [channel]

    def trim(self) -> int:
        return 0

    def connect(self, channel: object) -> None: ...

    def disconnect(self, channel: object) -> None: ...

    def close(self) -> None:
        self._move_calls.close()
        self.stop_all(patience_s=0.0)
        self._lifecycle.clear_all_leftovers()
        self.calls.close()

    def dead_sites(self) -> list[Trouble]:
        return self._health.dead_sites()

    def batches(self) -> dict[str, int]:
        return {each.name: cast(_AskedQuery, each.query).query.batches for each in self.roster.running()}

    def measure(self) -> Measurement:
        return Measurement(self.world.now_s, 1.0)


class _LeftSessions(LeftSessions):
    """Ending what an earlier run left asks Spark; here it asks the world. The note is the shipped one."""

    def __init__(self, folder: Path, process: Process) -> None:
        super().__init__(folder)
        self._process = process

    def note(self, sessions: Sequence[OpenSession], sites: Any) -> None:
        super().note(sessions, sites)
        self._process.did("note sessions", storage=True)

    def end_all(self, sites: Any) -> list[str]:
        world, ended, left = self._process.world, [], []
        for entry in self._noted():
            if world.condition[entry["site"]] not in ("up", "late"):
                left.append(entry)
                continue
            for query in world.queries:
                if query.session == entry["session"] and query.alive:
                    query.alive = False
                    ended.append(query.fragment)
                    self._process.did(f"end {query.session}")
        self._unreached = left
        try:
            self.note([], sites)
        except OSError as failure:
            raise EngineError("the queries left by an earlier run cannot be noted") from failure
        return ended


class JournalOfRun(Journal):
    def __init__(self, process: Process) -> None:
        super().__init__(
            process.own.owned.folder, lambda: process.world.now_s, compact_at_bytes=COMPACT_AT_BYTES
        )
        self.process = process

    def append(self, kind: str, **fields: object) -> None:
        super().append(kind, **fields)
        self.process.did(f"journal {kind}", storage=True, fields=fields)


class _Box(Tray):
    """The requests of all processes, as one of them sees them."""

    def __init__(self, process: Process) -> None:
        self._process, self._all = process, process.tray

    def take(self) -> Request | None:
        return self._all.take()

    def reply(self, name: str, answer: Mapping[str, object]) -> None:
        process = self._process
        if answer["state"] != "running" and not process.own_newest():
            what = f"process {process.number} answers a request: {answer['state']}"
            raise Violated("an overtaken process changes nothing", what)
        self._all.reply(name, answer)


class _AtOnceHeld:
    """A list is carried out where it is begun; other threads go on where the schedule says so."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def begin(self, work: Callable[[], None]) -> Future[None]:
        over: Future[None] = Future()
        self._process.carrying = True
        try:
            work()
        except Exception as failure:
            over.set_exception(failure)
        else:
            over.set_result(None)
        finally:
            self._process.carrying = False
        return over


@dataclass(frozen=True)
class _Handle:
    name: str
    world: World
    embedded: None = None
    slots: int = 1

    @property
    def endpoint(self) -> Any:
        return SimpleNamespace(shown=f"sc://{self.name}", without_secrets=lambda said: said)

    def is_alive(self) -> bool:
        return self.world.condition[self.name] != "dead"


class _Reviver:
    """Sites come back when the schedule says so."""

    def __init__(self, world: World) -> None:
        self._world, self._waiting = world, set[str]()

    def look_after(self, site: str) -> None:
        self._waiting.add(site)

    def returned(self) -> list[str]:
        back = {site for site in self._waiting if self._world.condition[site] == "up"}
        self._waiting -= back
        return sorted(back)

    def refusals(self) -> dict[str, str]:
        return {}


class _Clock:
    def __init__(self, world: World) -> None:
        self._world = world

    def now_s(self) -> float:
        return self._world.now_s

    def monotonic_s(self) -> float:
        return self._world.now_s

    def sleep(self, seconds: float) -> None:
        self._world.pass_s(seconds)


class Process:
    """Made, then `begin`; then `turn` after `turn`; then `end`, unless it dies."""

    def __init__(
        self, world: World, problem: Problem, tray: Tray, watch: Watch, number: int, *, standby: bool = False
    ) -> None:
        self.world, self.problem, self.tray, self.watch, self.number = world, problem, tray, watch, number
        self.standby = standby
        self.dead = self.carrying = self.nested = self.ending = self.begun = False
        self.clock = _Clock(world)
        self.incidents: list[str] = []
        self.handles = SiteHandles(cast(Any, _Handle(name, world)) for name in world.sites)

    # Life

    def begin(self, wish: Wish) -> None:
        """As `SparkRun` and what it rests on do."""
        self.own = own = self.owning()
        self.world.newest = max(self.world.newest, own.generation)
        self.did("own the storage")
        self.pulse = Pulse(own, self.clock)
        self.world.beating.append(self.pulse.beat)
        self.layout = self._layout()
        self.sessions = _LeftSessions(own.owned.folder, self)
        self.sessions.end_all(self.handles)
        self.journal = self.made_journal()
        self.beginning: Beginning = begin(self.problem, self.journal, wish, self.noted)
        self.engine = _Engine(self, self._note)
        self.session = RunSession(
            self.problem,
            self.engine,
            self.clock,
            _Box(self),
            journal=self.journal,
            book=self,
            reviver=_Reviver(self.world),
            replan=wish.replan,
            decider=NoneDecider(),
            options=OPTIONS,
            carrier=_AtOnceHeld(self),
            alive=self.pulse.sign,
        )
        self.session.start(self.beginning.placement, self.beginning.policy)
        self.begun = True

    def turn(self) -> None:
        self.session.turn()
        self.check()
        self.clock.sleep(TICK_S)

    def end(self) -> None:
        """In good order, as after a signal."""
        self.session._leave_list()
        self.session.desk.abandon()
        self.engine.stop_all(0.0)
        self.engine.close()
        with suppress(EngineError):  # as `SparkRun.end` does
            self.journal.append("stop", why="stopped", asked_by="")
        self._gone()
        self.own.release()
        self.did("release the storage")

    def die(self) -> None:
        """The machine lets go of what a process held; its sessions at sites stay."""
        self.dead = True
        self._gone()
        if hasattr(self, "own") and self.own._lock is not None:
            self.own._lock.close()

    def stand_still(self) -> None:
        self._gone()

    def go_on(self) -> None:
        if hasattr(self, "pulse"):
            self.world.beating.append(self.pulse.beat)

    def own_newest(self) -> bool:
        """Whether nobody has overtaken it."""
        return hasattr(self, "own") and self.own.generation == self.world.newest

    def _gone(self) -> None:
        if hasattr(self, "pulse") and self.pulse.beat in self.world.beating:
            self.world.beating.remove(self.pulse.beat)

    # What a planted bug replaces

    def owning(self) -> Ownership:
        root, project = self.world.root, Path("/project")
        own = Claim(root, project, self.clock, LEASE_S, standby=self.standby).settle()
        assert own is not None
        return own

    def made_journal(self) -> Journal:
        return JournalOfRun(self)

    def fenced(self, fragment: str) -> Path:
        return fence(cast(Any, self.layout), fragment)

    # Effects

    def did(
        self,
        what: str,
        *,
        in_thread: bool = False,
        storage: bool = False,
        fields: Mapping[str, object] | None = None,
    ) -> None:
        if self.dead:
            raise Died
        if storage and self.own.generation < self.world.newest:
            raise Violated("an overtaken process changes nothing", f"process {self.number}: {what}")
        self.world.look()
        self.watch.did(self, what, in_thread=in_thread, fields=fields or {})

    def _note(self, sessions: Sequence[OpenSession]) -> None:
        self.pulse.sign()
        self.sessions.note(sessions, self.handles)

    def _layout(self) -> _Layout:
        fragments = {
            name: SimpleNamespace(name=name, operators=(name,)) for name in self.problem.fragment_names
        }
        flows = {name: SimpleNamespace(stateful=False, place="flow.py:1") for name in fragments}
        return _Layout(
            self.own.owned,
            self.world.root,
            fragments,
            SimpleNamespace(flows=flows, is_view=lambda name: False),
            SimpleNamespace(folder=Path("/project")),
        )

    # What it says, as the session's book

    def noted(self, what: str) -> None:
        if what.startswith("making a new plan"):
            raise Violated("no refusal without cause", what)
        self.incidents.append(what)

    def write(self, troubles: Mapping[str, str], remarks: Mapping[str, object]) -> None: ...

    def incident(self, at_s: float, what: str) -> None:
        self.incidents.append(what)
        self.world.say(f"process {self.number} says: {what}")

    def placed(self, sites: FragmentSites) -> None: ...

    def moved(self, at_s: float, reports: Sequence[MoveReport], asked_by: str) -> None:
        for report in reports:
            launched = [
                query.site
                for query in self.world.queries
                if query.fragment == report.fragment and f" of process {self.number} " in query.session
            ]
            if report.to_site not in launched[1:] and launched[-1:] != [report.to_site]:
                raise Violated("what is reported has happened", f"{report} is reported, launched: {launched}")

    def noticed(
        self, sites: FragmentSites, troubles: Mapping[str, str], under_way: Mapping[str, object] | None
    ) -> None: ...

    def check(self) -> None:
        """What runs is what the session takes for running."""
        if self.own.generation < self.world.newest:
            return
        for each in self.engine.roster.running():
            if self.engine.in_move(each.name):
                continue
            query = cast(_AskedQuery, each.query).query
            newest = newest_number(self.layout.checkpoints(each.name))
            if query.site != each.site or int(query.checkpoint.name) != newest:
                raise Violated(
                    "what is reported has happened",
                    f"{each.name} is said to run at {each.site}, epoch {query.checkpoint.name} of {newest}",
                )
