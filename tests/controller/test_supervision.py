"""The supervisor carries an engine through faults; the engine here is a double at the engine's seam."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import pytest

from mooring.contracts.engine import Trouble
from mooring.controller.events import Event, FragmentStarts, Incident, StartsTried
from mooring.controller.parts import Parts
from mooring.controller.records import Report, Status
from mooring.controller.recovery import Recovery, RecoveryOptions, Replacement
from mooring.controller.run_state import RunState
from mooring.controller.supervision import Supervisor
from mooring.errors import EngineError, OvertakenError, SiteLostError
from mooring.model.placement.placement import FragmentSites
from mooring.model.problem.problem import Problem
from mooring.simulator.runs.simulated_run import MemoryBook
from mooring.spark.runs.system_clock import SystemClock

PROBLEM = Problem.from_dict(
    {
        "sites": {name: {"capacity": 1} for name in "ab"},
        "streams": {"x": {"rate": 1}},
        "operators": {name: {"inputs": ["x"], "cost_us": 1} for name in ("ingest", "count")},
    }
)
READERS = {"ingest": ["count"], "count": []}


@dataclass
class Double:
    """Two fragments; says what it is told to say, and refuses to run one twice or at a dead site."""

    running: dict[str, str]
    dead: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    failing: dict[str, str] = field(default_factory=dict)
    gone_channels: dict[str, str] = field(default_factory=dict)
    refuses: dict[str, str] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=dict)
    moving: set[str] = field(default_factory=set)
    starts: list[tuple[str, str]] = field(default_factory=list)
    cleared: list[str] = field(default_factory=list)

    def start(self, fragment: str, site: str) -> None:
        assert fragment not in self.running
        if site in self.dead | self.silent:
            raise SiteLostError(f"the site {site!r} does not answer")
        if fragment in self.refuses:
            raise EngineError(self.refuses[fragment])
        self.running[fragment] = site
        self.starts.append((fragment, site))

    def stop(self, fragment: str, patience_s: float = 0.0) -> None:
        self.running.pop(fragment, None)

    def forget(self, fragment: str) -> None:
        self.running.pop(fragment, None)

    def dead_sites(self) -> list[Trouble]:
        return [Trouble(site, None, SiteLostError(f"{site} ended")) for site in sorted(self.dead)]

    def inspect(self) -> list[Trouble]:
        silent = {site for site in self.running.values() if site in self.silent}
        return [
            *self.dead_sites(),
            *(Trouble(site, None, SiteLostError(f"{site} is silent")) for site in sorted(silent)),
            *(
                Trouble(self.running[name], name, EngineError(why))
                for name, why in self.failing.items()
                if name in self.running
            ),
        ]

    def lost_channels(self) -> dict[str, str]:
        return dict(self.gone_channels)

    def users_of(self, channel: str) -> list[str]:
        return [channel, *READERS[channel]]

    def clear_leftovers(self, site: str) -> int:
        self.cleared.append(site)
        return 0

    def homes(self) -> FragmentSites:
        return FragmentSites(dict(self.running))

    def in_move(self, fragment: str) -> bool:
        return fragment in self.moving

    def is_idle(self, fragment: str) -> bool:
        return fragment not in self.running and fragment not in self.moving

    def batches(self) -> dict[str, int]:
        return {name: self.committed.get(name, 0) for name in self.running}


@dataclass
class Revival:
    asked: list[str] = field(default_factory=list)
    back: list[str] = field(default_factory=list)

    def look_after(self, site: str) -> None:
        self.asked.append(site)

    def returned(self) -> list[str]:
        back, self.back = self.back, []
        return back

    def refusals(self) -> dict[str, str]:
        return {}


def to_b(sites: FragmentSites, lost: Collection[str]) -> FragmentSites:
    return FragmentSites(
        {name: "b" if name == "count" and site in lost else site for name, site in sites.items()}
    )


@dataclass
class Driven:
    """A supervisor under something that receives what it yields, before it goes on."""

    supervisor: Supervisor
    status: Status
    told: list[str] = field(default_factory=list)
    receive: Callable[[Event], None] = lambda event: None

    def tick(self, now_s: float) -> None:
        self._carry(self.supervisor.tick(now_s))

    def look(self, now_s: float) -> None:
        self._carry(self.supervisor.look(now_s))

    def _carry(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Incident):
                self.told.append(event.what)
            self.receive(event)

    @property
    def state(self) -> RunState:
        return self.supervisor.state

    @property
    def recovery(self) -> Recovery:
        return self.supervisor.recovery

    def troubles(self) -> dict[str, str]:
        return self.status.troubles()


def driven(engine: Double, revival: Revival, choose: Replacement, options: RecoveryOptions) -> Driven:
    state, parts, book = RunState(PROBLEM), Parts(), MemoryBook()
    recovery = Recovery(state, choose, options)
    recovery.begin(engine.homes())
    report = Report(book, SystemClock())
    status = Status(state, engine, book, revival, parts, report)  # type: ignore[arg-type]  # not all of an engine
    return Driven(Supervisor(state, engine, recovery, revival, parts), status)  # type: ignore[arg-type]


def supervised(tries: int = 3) -> tuple[Double, Revival, Driven, list[str]]:
    engine, revival = Double({"ingest": "a", "count": "a"}), Revival()
    made = driven(engine, revival, to_b, RecoveryOptions(tries=tries))
    return engine, revival, made, made.told


def test_a_dead_site_is_noticed_by_the_next_tick_and_its_fragments_run_elsewhere_or_when_it_is_back() -> None:
    engine, revival, supervisor, _ = supervised()
    engine.dead.add("a")
    supervisor.tick(1.0)
    assert engine.running == {"count": "b"}
    assert revival.asked == ["a"]
    assert "site a" in supervisor.troubles()
    assert supervisor.troubles()["ingest"].startswith("waiting")
    engine.dead.clear()
    revival.back.append("a")
    supervisor.tick(2.0)
    assert engine.running == {"count": "b", "ingest": "a"}
    assert engine.cleared == ["a"]
    assert supervisor.troubles() == {}


def test_who_looks_on_learns_of_a_lost_site_before_its_fragments_are_started_elsewhere() -> None:
    """Starting them may take longer than the site needs to come back; its loss would never be shown."""
    engine, _, supervisor, _ = supervised()
    seen: list[tuple[bool, FragmentSites]] = []

    def receive(event: Event) -> None:
        if isinstance(event, FragmentStarts | StartsTried):
            seen.append(("site a" in supervisor.troubles(), engine.homes()))

    supervisor.receive = receive
    supervisor.tick(0.5)
    assert seen == []
    engine.dead.add("a")
    supervisor.tick(1.0)
    assert seen == [(True, FragmentSites({})), (True, FragmentSites({"count": "b"}))]


def test_a_frozen_site_is_noticed_by_a_look() -> None:
    engine, _, supervisor, _ = supervised()
    engine.silent.add("a")
    supervisor.tick(1.0)
    assert engine.running == {"ingest": "a", "count": "a"}
    supervisor.look(2.0)
    assert engine.running == {"count": "b"}


def test_a_site_that_dies_while_a_fragment_is_started_there_is_lost_not_blamed_on_the_fragment() -> None:
    engine, _, supervisor, told = supervised()
    engine.dead.add("a")
    engine.silent.add("b")
    supervisor.tick(1.0)
    assert engine.running == {}
    assert set(supervisor.state.lost) == {"a", "b"}
    assert not any("failed" in line for line in told)


def test_a_failing_fragment_is_tried_again_while_the_other_runs_on_and_then_given_up() -> None:
    engine, _, supervisor, told = supervised(tries=3)
    engine.failing["count"] = "bad row"
    for now in range(0, 100, 5):
        supervisor.look(float(now))
        assert "ingest" in engine.running
    assert engine.starts == [("count", "a")] * 2
    assert supervisor.troubles() == {"count": "given up: bad row"}
    assert told[-1] == "count failed 3 times in a row and is not restarted: bad row"


def test_a_full_disk_is_waited_out_however_long_it_lasts() -> None:
    engine, _, supervisor, _ = supervised(tries=2)
    engine.failing["count"] = "java.io.IOException: No space left on device"
    for now in range(0, 2000, 5):
        supervisor.look(float(now))
    engine.failing.clear()
    for now in range(2000, 2100, 5):
        supervisor.look(float(now))
    assert engine.running == {"ingest": "a", "count": "a"}
    assert supervisor.troubles() == {}


def test_committed_batches_keep_a_fragment_that_fails_now_and_then_alive() -> None:
    engine, _, supervisor, _ = supervised(tries=2)
    for now in range(0, 500, 10):
        engine.failing = {"count": "hiccup"} if now % 20 == 0 else {}
        engine.committed["count"] = now
        supervisor.look(float(now))
    assert engine.running == {"ingest": "a", "count": "a"}


def test_a_lost_channel_stops_who_writes_and_reads_it_until_it_is_back() -> None:
    engine, _, supervisor, told = supervised()
    engine.gone_channels["ingest"] = "the folder is missing"
    supervisor.look(1.0)
    supervisor.look(2.0)
    assert engine.running == {}
    assert sum("the channel of ingest is lost" in line for line in told) == 1
    assert supervisor.troubles()["channel ingest"] == "the folder is missing"
    engine.gone_channels.clear()
    supervisor.look(3.0)
    assert engine.running == {"ingest": "a", "count": "a"}


def test_a_fragment_in_a_movers_hands_is_left_alone() -> None:
    engine, _, supervisor, _ = supervised()
    engine.moving.add("count")
    engine.failing["count"] = "stopped by the move"
    supervisor.look(1.0)
    engine.dead.add("a")
    supervisor.tick(2.0)
    assert engine.running == {"count": "a"}
    assert engine.starts == []


def test_recovery_follows_a_move_and_starts_what_a_failed_one_left_idle() -> None:
    engine, _, supervisor, _ = supervised()
    engine.running["count"] = "b"
    supervisor.look(1.0)
    assert supervisor.state.where == {"ingest": "a", "count": "b"}
    del engine.running["count"]
    supervisor.look(2.0)
    supervisor.look(10.0)
    assert engine.running == {"ingest": "a", "count": "b"}


def test_a_site_that_flaps_is_held_back_longer_each_time_and_its_leftovers_are_still_ended() -> None:
    engine, revival, supervisor, told = supervised()
    used_again_s = []
    now = 0.0
    for _ in range(4):
        engine.dead.add("a")
        supervisor.tick(now)
        engine.dead.clear()
        revival.back.append("a")
        began = now
        while "a" in supervisor.state.lost:
            supervisor.tick(now)
            now += 1.0
        used_again_s.append(now - began)
    assert used_again_s == sorted(used_again_s)
    assert used_again_s[0] <= 1.0 < 10.0 <= used_again_s[1] < used_again_s[2] < used_again_s[3]
    assert engine.cleared == ["a"] * 4
    assert any("after 2 losses and stays unused for 10 s" in line for line in told)
    engine.dead.add("a")
    supervisor.tick(now + 10_000)
    engine.dead.clear()
    revival.back.append("a")
    supervisor.tick(now + 10_001)
    assert "a" not in supervisor.state.lost


def test_a_site_lost_again_while_it_is_held_back_is_brought_back_again() -> None:
    engine, revival, supervisor, _ = supervised()
    for now in (0.0, 1.0):
        engine.dead.add("a")
        supervisor.tick(now)
        engine.dead.clear()
        revival.back.append("a")
        supervisor.tick(now + 0.5)
    assert revival.asked == ["a", "a"]
    engine.dead.add("a")
    supervisor.tick(3.0)
    assert revival.asked == ["a", "a", "a"]


def test_fragments_of_a_lost_site_are_started_a_few_at_a_time() -> None:
    names = [f"f{n}" for n in range(7)]
    engine = Double(dict.fromkeys(names, "a"))
    supervisor = driven(
        engine,
        Revival(),
        lambda sites, lost: FragmentSites(dict.fromkeys(sites, "b")),
        RecoveryOptions(most_at_once=3),
    )
    engine.dead.add("a")
    started = []
    for now in range(4):
        supervisor.tick(float(now))
        started.append(len(engine.running))
    assert started == [3, 6, 7, 7]


def test_a_fragment_that_was_moved_away_a_moment_before_its_site_died_is_left_alone() -> None:
    engine, _, supervisor, _ = supervised()
    engine.running["count"] = "b"  # by a move that recovery has not heard of
    engine.dead.add("a")
    supervisor.tick(1.0)
    assert engine.running == {"count": "b"}
    assert engine.starts == []


def test_a_move_that_ends_at_the_site_that_recovery_chose_is_not_started_again() -> None:
    engine, _, supervisor, told = supervised()
    engine.moving.add("count")
    engine.dead.add("a")
    supervisor.tick(1.0)
    assert supervisor.state.where["count"] == "b"
    assert "count" in engine.running  # whatever becomes of it is the move's affair
    engine.running["count"] = "b"
    engine.moving.clear()
    supervisor.tick(2.0)
    supervisor.look(3.0)
    assert engine.starts == []
    assert supervisor.recovery.state_of("count") == "running"
    assert not any("failed" in what for what in told)


def test_what_a_move_left_at_a_lost_site_is_started_elsewhere() -> None:
    """It was in hand when the site was lost, so nobody let go of it; then the move failed and changed
    nothing.
    """
    engine, _, supervisor, _ = supervised()
    engine.moving.add("count")
    engine.dead.add("a")
    supervisor.tick(1.0)
    engine.moving.clear()
    supervisor.look(2.0)
    assert engine.running == {"count": "b"}


def test_a_lost_channel_stops_a_fragment_that_was_on_its_way_once_it_has_arrived() -> None:
    engine, _, supervisor, told = supervised()
    engine.moving.add("count")
    engine.gone_channels["ingest"] = "its folder is missing"
    supervisor.look(1.0)
    assert engine.running == {"count": "a"}
    engine.running["count"] = "b"
    engine.moving.clear()
    supervisor.look(2.0)
    assert engine.running == {}
    assert sum("is lost" in what for what in told) == 1
    engine.gone_channels.clear()
    supervisor.look(3.0)
    assert engine.running == {"ingest": "a", "count": "b"}


def test_the_lease_is_looked_after_between_two_starts_of_one_turn() -> None:
    """Each may take 240 s at a site that does not answer, and no lease outlasts two of them unattended."""
    engine, _, supervisor, _ = supervised()
    happened: list[str] = []

    def start(fragment: str, site: str) -> None:
        happened.append(fragment)
        raise EngineError("did not answer within 120 s")

    engine.running.clear()
    engine.start = start  # type: ignore[method-assign]
    supervisor.receive = lambda event: happened.append("sign") if isinstance(event, FragmentStarts) else None
    for name in ("ingest", "count"):
        supervisor.recovery.failed(name, "it ended", 0.0)
    supervisor.tick(5.0)
    assert happened == ["sign", "ingest", "sign", "count"]


def test_a_run_that_was_overtaken_during_one_start_begins_no_other() -> None:
    engine, _, supervisor, _ = supervised()

    def sign(event: Event) -> None:
        if engine.starts and isinstance(event, FragmentStarts):
            raise OvertakenError("the storage belongs to somebody else")

    engine.running.clear()
    supervisor.receive = sign
    for name in ("ingest", "count"):
        supervisor.recovery.failed(name, "it ended", 0.0)
    with pytest.raises(OvertakenError):
        supervisor.tick(5.0)
    assert engine.starts == [("ingest", "a")]
