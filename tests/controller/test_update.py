"""An update ends when everything has read what there was, in the order of the graph, whatever fails."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mooring.algorithms.baselines.none_decider import NoneDecider
from mooring.contracts.engine import Amount, Measurement, MoveReport, Trouble
from mooring.controller.journal import Journal
from mooring.controller.session import RunSession
from mooring.controller.update import PATIENCE_S, UPDATE_PACE, Update
from mooring.errors import EngineError, SiteLostError
from mooring.model.deployment.channels import Channel
from mooring.model.deployment.move_stages import Reached, ignored
from mooring.model.deployment.update_order import UpdateOrder
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.simulator.runs.memory_mailbox import Tray
from mooring.simulator.runs.simulated_run import MemoryBook

PROBLEM = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
        "streams": {"x": {"site": "a", "rate": 1}},
        "operators": {
            "raw": {"inputs": ["x"], "cost_us": 1, "site": "a"},
            "clean": {"inputs": ["raw"], "cost_us": 1},
            "sums": {"inputs": ["clean"], "cost_us": 1},
            "copy": {"inputs": ["raw"], "cost_us": 1},
        },
    }
)
READS = {"raw": (), "clean": ("raw",), "sums": ("clean",), "copy": ("raw",)}
AT = FragmentSites({"raw": "a", "clean": "b", "sums": "a", "copy": "b"})
BATCH_S = 3.0


@dataclass
class Double:
    """At the engine's seam: a fragment ends three seconds after it was started, unless it is told to fail or
    its site is dead.
    """

    at_s: float = 0.0
    running: dict[str, tuple[str, float]] = field(default_factory=dict)
    starts: list[tuple[str, str]] = field(default_factory=list)
    failing: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    gone_channels: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    # The clock

    def now_s(self) -> float:
        return self.at_s

    def monotonic_s(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds

    # What the session asks for

    def connect(self, channel: Channel) -> None: ...
    def disconnect(self, channel: Channel) -> None: ...
    def settled(self) -> None: ...

    def trim(self) -> int:
        return 0

    def start_all(self, sites: FragmentSites) -> None:
        for fragment, site in sites.items():
            self.start(fragment, site)

    def start(self, fragment: str, site: str) -> None:
        assert fragment not in self.running
        if site in self.dead:
            raise SiteLostError(f"{site} is dead")
        self.running[fragment] = (site, self.at_s)
        self.starts.append((fragment, site))

    def stop(self, fragment: str, patience_s: float = 0.0) -> None:
        self.forget(fragment)

    def move(self, fragment: str, to_site: str, reached: Reached = ignored) -> MoveReport:
        raise AssertionError("nobody asks for moves")

    def forget(self, fragment: str) -> None:
        self.running.pop(fragment, None)

    def homes(self) -> FragmentSites:
        return FragmentSites({name: site for name, (site, _) in self.running.items()})

    def measure(self) -> Measurement:
        return Measurement(self.at_s, 1.0)

    def dead_sites(self) -> list[Trouble]:
        return [Trouble(site, None, SiteLostError(f"{site} ended")) for site in sorted(self.dead)]

    def inspect(self) -> list[Trouble]:
        broken = [(name, site) for name, (site, _) in self.running.items() if name in self.failing]
        return [*self.dead_sites(), *(Trouble(at, name, EngineError("bad row")) for name, at in broken)]

    def clear_leftovers(self, site: str) -> int:
        return 0

    def in_move(self, fragment: str) -> bool:
        return False

    def is_idle(self, fragment: str) -> bool:
        return fragment not in self.running

    def batches(self) -> dict[str, int]:
        return dict.fromkeys(self.running, 0)

    def lost_channels(self) -> Mapping[str, str]:
        return self.gone_channels

    def users_of(self, channel: str) -> list[str]:
        return [channel, *(name for name, reads in READS.items() if channel in reads)]

    # What an update asks for

    def reached_end(self) -> list[str]:
        ended = [
            name
            for name, (site, since_s) in self.running.items()
            if self.at_s - since_s >= BATCH_S and name not in self.failing and site not in self.dead
        ]
        for name in ended:
            del self.running[name]
        return ended

    def unread(self, fragment: str) -> str:
        return self.left.get(fragment, "")

    def amounts(self) -> dict[str, Amount]:
        return {name: Amount(10, 5, 1) for name, _ in self.starts}


@dataclass
class Revival:
    """Sites never come back."""

    def look_after(self, site: str) -> None: ...

    def returned(self) -> list[str]:
        return []

    def refusals(self) -> dict[str, str]:
        return {}


def updating(folder: Path, engine: Double, chosen: Collection[str] = tuple(READS)) -> Update:
    session = RunSession(
        PROBLEM,
        engine,
        engine,
        Tray(),
        journal=Journal(folder, engine.monotonic_s),
        book=MemoryBook(),
        reviver=Revival(),
        replan=lambda left: Placement.from_fragments(left, FragmentSites({**AT, "clean": "a", "copy": "a"})),
        decider=NoneDecider(),
        options=UPDATE_PACE,
    )
    order = UpdateOrder(READS, chosen)
    session.start(Placement.from_fragments(PROBLEM, AT), "by hand", order.ready(begun=()))
    return Update(session, engine, order)


def run(update: Update, engine: Double, most_s: float = 1000.0) -> None:
    update.session.run(lambda passed: update.is_over or passed > most_s)
    assert engine.at_s <= most_s, "it never ended"


def test_a_fragment_begins_when_all_that_write_its_inputs_have_ended(tmp_path: Path) -> None:
    engine = Double()
    update = updating(tmp_path, engine)
    run(update, engine)
    assert update.unreached() == {}
    assert sorted(update.ended_s, key=lambda name: update.ended_s[name])[0] == "raw"
    assert engine.starts == [("raw", "a"), ("clean", "b"), ("copy", "b"), ("sums", "a")]
    document = update.as_json()
    assert document["done"]
    assert document["fragments"]["sums"]["rows_read"] == 10
    assert update.session.journal.placement() == AT
    placements = [record for record in update.session.journal.records() if record["kind"] == "placement"]
    assert len(placements) == 1, "a fragment that begins later has not gone anywhere"


def test_an_update_whose_fragment_left_files_behind_is_over_and_not_done(tmp_path: Path) -> None:
    engine = Double(left={"clean": "it ended without reading 1 file of raw"})
    update = updating(tmp_path, engine)
    run(update, engine)
    assert update.unreached() == {"clean": "it ended without reading 1 file of raw"}
    document = update.as_json()
    assert not document["done"]
    assert document["fragments"]["clean"]["state"] == "behind"
    assert document["fragments"]["sums"]["state"] == "done", "what reads it is brought as far as it can be"


def test_what_is_not_chosen_is_neither_started_nor_waited_for(tmp_path: Path) -> None:
    engine = Double()
    update = updating(tmp_path, engine, chosen=("sums", "copy"))
    run(update, engine)
    assert {name for name, _ in engine.starts} == {"sums", "copy"}
    assert update.unreached() == {}
    assert update.session.journal.placement() == AT, "the next run begins where everything was"


def test_a_flow_that_keeps_failing_leaves_out_its_readers_and_nobody_else(tmp_path: Path) -> None:
    engine = Double(failing={"clean"})
    update = updating(tmp_path, engine)
    run(update, engine)
    assert engine.starts.count(("clean", "b")) == 3
    assert set(update.ended_s) == {"raw", "copy"}
    unreached = update.unreached()
    assert set(unreached) == {"clean", "sums"}
    assert "bad row" in unreached["clean"]
    assert unreached["sums"] == "waits for clean"
    assert not update.as_json()["done"]


def test_the_fragments_of_a_site_that_is_lost_go_on_elsewhere(tmp_path: Path) -> None:
    engine = Double()
    update = updating(tmp_path, engine)
    update.session.run(lambda passed: "clean" in engine.running)
    engine.dead.add("b")
    run(update, engine)
    assert update.unreached() == {}
    assert ("clean", "a") in engine.starts
    assert update.session.journal.placement() == FragmentSites({**AT, "clean": "a", "copy": "a"})


def test_an_update_does_not_wait_for_ever_for_a_site_that_one_of_its_fragments_needs(tmp_path: Path) -> None:
    engine = Double()
    update = updating(tmp_path, engine)
    engine.dead.add("a")
    run(update, engine)
    assert engine.at_s == pytest.approx(PATIENCE_S, abs=5.0)
    assert "its site a is lost" in update.unreached()["raw"]


def test_nothing_begins_to_read_a_channel_of_which_something_is_missing(tmp_path: Path) -> None:
    engine = Double()
    update = updating(tmp_path, engine)
    update.session.run(lambda passed: "clean" in engine.running)
    engine.gone_channels["clean"] = "a file is missing"
    run(update, engine)
    assert "sums" not in dict(engine.starts)
    assert "sums" in update.unreached()
