"""Optimisers in agents beside real Spark sites decide, and what they want is done, whoever is killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.algorithms.relaxation.central_decider import RelaxationDecider
from mooring.controller.guards import GuardOptions
from mooring.controller.initial_placement import Wish
from mooring.controller.session import RunSession, SessionOptions
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import prepared_on
from mooring.spark.runs.results import read_stored
from mooring.spark.runs.spark_run import SparkRun
from tests.spark.runs.mortal_site import MoveGate, three_sites

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker

PATIENCE_S = 150.0
SETTINGS = """\
sites: {a: {capacity: 2}, b: {capacity: 2}, c: {capacity: 2}}
latency_ms: {a: {b: 30, c: 60}, b: {c: 30}}
streams: {numbers: {site: a, rate: 40}}
queries: {even: {site: a}}
statistics: {numbers: {cost_us: 1, fixed_cores: 0.01}, even: {cost_us: 1, fixed_cores: 0.01}}
trigger_s: 0.5
"""
FLOWS = """
from pyspark import pipelines as dp

@dp.table
def even():
    return spark.readStream.table("numbers").filter("n % 2 = 0")
"""
BEGAN = FragmentSites({"numbers": "a", "even": "c"})
WILLING = GuardOptions(looks=2, pause_s=0.0, least_gain=0.0, worth=0.0)


class Scene:
    def __init__(self, folder: Path) -> None:
        self.folder, self.fed = folder, 0

    def feed(self, count: int) -> None:
        hidden = self.folder / "input" / f".{self.fed}"
        numbers = range(self.fed, self.fed + count)
        hidden.write_text("\n".join(json.dumps({"n": n}) for n in numbers))
        hidden.rename(self.folder / "input" / f"{self.fed:06d}.json")
        self.fed += count

    def turn_until(
        self, session: RunSession, happened: Callable[[], bool], what: str, rows: int = 10
    ) -> None:
        """Turn after turn, so many rows coming in with each."""
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            assert time.monotonic() < deadline, f"waited too long for {what}"
            if rows:
                self.feed(rows)
            session.turn()
            session.clock.sleep(0.4)

    def memory(self, site: str) -> dict[str, Any]:
        """What the optimiser of a site must not forget."""
        file = self.folder / ".mooring" / "agents" / site / "durable.json"
        machines = json.loads(file.read_text())["machines"] if file.exists() else {}
        return machines.get("relaxation") or {}

    def nothing_is_held(self) -> bool:
        return not any(self.memory(site).get(what) for site in "abc" for what in ("open", "held"))

    def agent(self, site: str) -> int:
        status = json.loads((self.folder / ".mooring" / "agents" / site / "agent.json").read_text())
        return int(status["pid"])


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are looked for in /proc")
def test_the_agent_that_proposed_and_its_site_are_killed_and_the_fragment_moves_all_the_same(
    make_project: ProjectMaker, site: EmbeddedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(make_project(settings=SETTINGS, flows_py=FLOWS))
    gate, (sites, mortal) = MoveGate(monkeypatch, PATIENCE_S), three_sites(site)
    with prepared_on(load_project(scene.folder), sites) as made:
        wish = Wish("rod", placement=lambda problem: Placement.from_fragments(problem, BEGAN))
        run = SparkRun(
            made, wish, decider=RelaxationDecider(), machines="relaxation", act="apply", guards=WILLING
        )
        with run.started(pace=SessionOptions(look_s=0.5)) as (session, _):
            scene.turn_until(session, lambda: bool(scene.memory("c").get("open")), "a proposal of c")
            proposer = scene.agent("c")
            os.kill(proposer, signal.SIGKILL)
            scene.turn_until(session, gate.arrived.is_set, "the move to be under way")
            mortal.dead = True
            gate.open.set()
            scene.turn_until(
                session, lambda: session.engine.homes() == {"numbers": "a", "even": "a"}, "it to be at a"
            )
            scene.turn_until(session, lambda: scene.agent("c") != proposer, "the agent to be back")
            scene.turn_until(session, scene.nothing_is_held, "every site to have its answer")
            evens = partial(stored, made.layout.root)
            scene.turn_until(session, lambda: len(evens()) >= scene.fed // 2, "all rows", rows=0)
        run.end("over")
        assert evens() == list(range(0, scene.fed, 2))
    said = json.loads((scene.folder / ".mooring" / "report.json").read_text())
    assert "adapting: relaxation" in json.dumps(said)


def stored(root: Path) -> list[int]:
    found = read_stored(root, "even")
    return sorted(found["n"].to_pylist()) if found.num_rows else []
