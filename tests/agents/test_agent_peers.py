"""Machines in agents of their own decide, and the run session carries it out, whoever is killed on the way.

Agents are real processes that talk over TLS; the engine is the simulator, so that no Spark is needed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from mooring.agents.agent_peers import decided_at_sites
from mooring.agents.project_members import ProjectMembers, agents_of
from mooring.agents.runner_endpoint import RunnerPost
from mooring.agents.transport.certificates import make_certificates
from mooring.agents.transport.members import RUNNER
from mooring.agents.transport.peer_link import BackOff
from mooring.algorithms.ants.central_decider import AntsDecider
from mooring.algorithms.catalogue import CENTRAL, hosted_protocol
from mooring.algorithms.overlay.central_decider import OverlayDecider
from mooring.algorithms.relaxation.central_decider import RelaxationDecider
from mooring.contracts.decider import Decider
from mooring.controller.events import Event, Order
from mooring.controller.guards import GuardOptions
from mooring.controller.initial_placement import Wish
from mooring.coordination.site_decider import ProtocolDecider
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.arrivals import Constant
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.runs.simulated_run import SimulatedRun, simulated_run

SITES = ("a", "b", "c")
PATIENCE_S = 120.0
"""Never waited for unless something is wrong."""
AGENT = """
import asyncio, io, sys
from pathlib import Path
from mooring.agents.agent import Agent, AgentSettings
from mooring.agents.project_members import agents_of
from mooring.agents.transport.peer_link import BackOff

def optimisers():
    from mooring.algorithms.relaxation.migration import MigrationParams
    from mooring.algorithms.relaxation.machines.params import OptimiserParams
    from mooring.algorithms.relaxation.hosted import hosted_optimisers
    migration = MigrationParams(0.0, 0.05, 1)
    return hosted_optimisers(
        OptimiserParams(period_ms=30.0, rounds_per_review=4, patience=3, migration=migration)
    )

def ants():
    from mooring.algorithms.ants.ant_params import AntParams
    from mooring.algorithms.ants.machines.colony_params import ColonyParams, UpdatingParams
    from mooring.algorithms.ants.hosted import hosted_ants
    few = AntParams(routing_ants=4, scouts=8)
    return hosted_ants(ColonyParams(few, ant_ms=2000.0), UpdatingParams(look_ms=100.0, round_ms=60.0))

def overlays():
    from mooring.algorithms.overlay.leases.lease_params import LeaseParams
    from mooring.algorithms.overlay.leases.overlay_agent import OverlayAgentParams
    from mooring.algorithms.overlay.protocol.directory import DirectoryParams
    from mooring.algorithms.overlay.protocol.overlay_site import OverlayParams
    from mooring.algorithms.overlay.hosted import hosted_overlays
    waits = dict(lock_ms=60_000.0, patience_ms=50_000.0, retry_ms=100.0, silence_ms=200.0, rest_ms=20.0)
    return hosted_overlays(
        OverlayAgentParams(
            lease=LeaseParams(**waits, report_ms=100.0, review_ms=300.0, replicates=False),
            overlay=OverlayParams(directory=DirectoryParams(period_ms=100.0, split_by=3)),
            prepare_ms=200.0,
            ask_ms=50.0,
        )
    )

async def main(work, site, protocol):
    found = agents_of(Path(work), ("a", "b", "c"), {})
    hosted = {"relaxation": optimisers, "ants": ants, "overlay": overlays}[protocol]()
    settings = AgentSettings(
        site, found.members, found.certificates, back_off=BackOff(0.02, 0.1), on_disk=False
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)
    await Agent(settings, [hosted], sys.stderr).run(stop)

asyncio.run(main(*sys.argv[1:]))
"""
PROBLEM = Problem.from_dict(
    {
        "sites": {name: {"capacity": 1} for name in SITES},
        "latency_ms": {"a": {"b": 50, "c": 100}, "b": {"c": 50}},
        "streams": {"x": {"site": "a", "rate": 20, "bytes": 100}},
        "operators": {"f": {"inputs": ["x"], "cost_us": 1000, "selectivity": 0.1}},
        "queries": {"q": {"reads": "f", "site": "a"}},
    }
)
WILLING = GuardOptions(looks=1, pause_s=0.0, least_gain=0.0, worth=0.0, moves_per_hour=1000)


SMALL = PROBLEM.in_circumstances(
    rates=PROBLEM.rates,
    capacity_cores=np.array([1.0, 1.0, 0.015]),
    latency_ms=PROBLEM.network.latency_ms,
)
"""What runs at c is more than it can do."""


class Scene:
    """Agents of three sites, and a run whose one fragment should be at a and is at c."""

    def __init__(self, work: Path, decider: Decider, problem: Problem = PROBLEM) -> None:
        self._decider, self._problem = decider, problem
        self._protocol = decider.name.removesuffix(CENTRAL)
        self.found: ProjectMembers = agents_of(work, SITES, {})
        make_certificates(self.found.certificates, self.found.members.names)
        self._work, self._agents = work, dict[str, subprocess.Popen[bytes]]()
        for site in SITES:
            self.start_agent(site)
        self.engine = SimulatedEngine(problem, [Constant(20.0)], np.random.default_rng(0), horizon_s=1e6)
        self._runs = 0

    def start_agent(self, site: str) -> None:
        command = [sys.executable, "-c", AGENT, str(self._work), site, self._protocol]
        self._agents[site] = subprocess.Popen(command, stdin=subprocess.PIPE)

    def kill_agent(self, site: str) -> None:
        agent = self._agents[site]
        agent.kill()
        agent.wait()
        assert agent.stdin is not None
        agent.stdin.close()

    def runner(self, post: RunnerPost, act: Any = "apply") -> tuple[SimulatedRun, ProtocolDecider]:
        """A run session over what runs already, if anything does."""
        kept_in = self.found.members.own_folder(RUNNER)
        decider = decided_at_sites(self._protocol, self._decider, self._problem, post, kept_in)
        self._runs += 1
        folder = self._work / f"run{self._runs}"
        folder.mkdir()
        run = simulated_run(
            self.engine,
            folder,
            Wish("rod"),
            decider=decider,
            act=act,
            guards=WILLING,
        )
        for fragment in list(self.engine.homes()):
            self.engine.stop(fragment)
        at = {"f": "c"} if self._runs == 1 else dict(self.last)
        run.session.start(Placement.from_dict(self._problem, at), "given")
        return run, decider

    def post(self) -> RunnerPost:
        return RunnerPost(self.found, [hosted_protocol(self._protocol)], back_off=BackOff(0.02, 0.1))

    def go_on(self, run: SimulatedRun, until: Callable[[], bool]) -> None:
        """Turn by turn: virtual seconds for the engine, milliseconds for the agents."""
        deadline = time.monotonic() + PATIENCE_S
        while not until():
            assert time.monotonic() < deadline, "it takes too long"
            run.session.turn()
            run.session.clock.sleep(5.0)
            time.sleep(0.02)
        self.last = dict(self.engine.homes())

    def memory(self, site: str) -> dict[str, Any]:
        file = self.found.members.own_folder(site) / "durable.json"
        if not file.exists():  # it has hardly begun
            return {}
        kept: dict[str, Any] = msgspec.json.decode(file.read_bytes())["machines"].get(self._protocol) or {}
        return kept

    def nothing_is_held(self) -> bool:
        kept = [self.memory(site) for site in SITES]
        return not any(each.get("held") or each.get("locks") or each.get("open") for each in kept)

    def close(self) -> None:
        for site in SITES:
            self.kill_agent(site)


@contextmanager
def set_up(work: Path, decider: Decider) -> Iterator[Scene]:
    made = Scene(work, decider)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with set_up(tmp_path, RelaxationDecider()) as made:
        yield made


@pytest.mark.parametrize(("decider", "proposer"), [(RelaxationDecider(), "c"), (AntsDecider(), "a")])
def test_agents_decide_and_the_session_moves_and_a_killed_agent_is_answered(
    decider: Decider, proposer: str, tmp_path: Path
) -> None:
    """Optimisers propose where a fragment is, ants where its chain begins."""
    with set_up(tmp_path, decider) as scene, scene.post() as post:
        run, at_sites = scene.runner(post, act="propose")
        scene.go_on(run, lambda: len(at_sites.mover.memory.answers) > 0)
        assert scene.engine.homes() == {"f": "c"}
        assert "Accepted" not in str(at_sites.mover.memory)
        run.session.adaptation.act = "apply"
        scene.go_on(run, lambda: bool(scene.memory(proposer).get("open")))
        scene.kill_agent(proposer)  # with its proposal on the way
        scene.start_agent(proposer)
        scene.go_on(run, lambda: scene.engine.homes() == {"f": "a"})
        scene.go_on(run, scene.nothing_is_held)
        assert scene.engine.homes() == {"f": "a"}


@pytest.mark.parametrize("ordered", [False, True])
def test_a_runner_that_is_lost_after_accepting_comes_back_and_says_how_it_ended(
    scene: Scene, ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the list was ordered, and after it was carried out."""
    with scene.post() as post:
        run, decider = scene.runner(post)
        desk = run.session.desk
        sound = desk.on

        def lost(event: Event) -> Iterator[Event]:
            if not isinstance(event, Order):
                return sound(event)
            if ordered:
                list(sound(event))
            raise KeyboardInterrupt

        monkeypatch.setattr(desk, "on", lost)
        with pytest.raises(KeyboardInterrupt):
            scene.go_on(run, lambda: False)
        assert decider.mover.memory.accepted != ()
        scene.last = dict(scene.engine.homes())
        assert scene.last == {"f": "a" if ordered else "c"}
    with scene.post() as post:
        run, decider = scene.runner(post)
        assert decider.mover.memory.accepted != ()
        scene.go_on(run, lambda: scene.engine.homes() == {"f": "a"})
        scene.go_on(run, lambda: not decider.mover.memory.accepted and scene.nothing_is_held())


def test_an_agent_that_is_killed_with_its_lease_on_is_answered_and_no_lock_is_left(tmp_path: Path) -> None:
    """The machine that sought the lease has proposed: its locks are held by others, and must end with it."""
    scene = Scene(tmp_path, OverlayDecider(), SMALL)
    try:
        with scene.post() as post:
            run, _ = scene.runner(post, act="propose")
            scene.go_on(run, lambda: bool(scene.memory("c").get("open")))
            scene.kill_agent("c")
            assert scene.engine.homes() == {"f": "c"}
            run.session.adaptation.act = "apply"
            scene.start_agent("c")
            scene.go_on(run, lambda: scene.engine.homes()["f"] in ("a", "b"))
            scene.go_on(run, scene.nothing_is_held)
    finally:
        scene.close()
