"""A project folder whose run is a real session over the simulator: files, mailbox and journal as on Spark, in
time twenty times as fast. What a service sees of it is what it sees of a run on Spark.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mooring.algorithms.headroom.decider import HeadroomDecider
from mooring.atomic_files import write_whole
from mooring.contracts.engine import MoveReport
from mooring.controller.cycle import Look
from mooring.controller.initial_placement import Wish
from mooring.controller.journal import Journal
from mooring.controller.session import RunSession, SessionOptions
from mooring.model.placement.placement import FragmentSites, Placement, operators_at
from mooring.model.problem.problem import Problem
from mooring.model.problem.write import problem_to_json
from mooring.simulator.data_plane.arrivals import Constant
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.runs.simulated_run import SimulatedRevival
from mooring.spark.engine.snapshot import (
    ChannelSnapshot,
    FragmentSnapshot,
    QuerySnapshot,
    SiteSnapshot,
    Snapshot,
)
from mooring.spark.runs.mailbox import FileMailbox
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.runs.spark_run import PROBLEM_FILE_NAME

SPEED = 20.0
PROBLEM = Problem.from_dict(
    {
        "sites": {"oslo": {"capacity": 1}, "porto": {"capacity": 1}},
        "streams": {"packets": {"site": "oslo", "rate": 100}, "requests": {"site": "porto", "rate": 50}},
        "operators": {
            "read": {"inputs": ["packets"], "cost_us": 2000, "site": "oslo"},
            "busy": {"inputs": ["read"], "cost_us": 3500},
            "pairs": {"inputs": ["read"], "cost_us": 3400},
            "served": {"inputs": ["requests"], "cost_us": 500, "site": "porto"},
        },
        "queries": {"busy": {"reads": "busy", "site": "oslo", "max_latency_ms": 60000}},
    }
)
ALL_AT_OSLO = FragmentSites({"read": "oslo", "busy": "oslo", "pairs": "oslo", "served": "porto"})


class FastClock:
    def __init__(self, engine: SimulatedEngine) -> None:
        self._engine, self._began_s = engine, time.time()

    def now_s(self) -> float:
        return self._began_s + self.monotonic_s()

    def monotonic_s(self) -> float:
        return self._engine.simulation.now_s

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / SPEED)
        self._engine.run(self.monotonic_s() + seconds)


class StatusBook:
    """Writes the status file that a run on Spark would write."""

    def __init__(self, problem: Problem, files: RunFiles) -> None:
        self.problem, self.files = problem, files
        self.look: Look | None = None

    def show(self, look: Look) -> None:
        self.look = look

    def write(self, troubles: Mapping[str, str], remarks: Mapping[str, object]) -> None:
        assert self.look is not None
        self.files.write_status(
            {
                "version": 1,
                "pipeline": "network_monitoring",
                "policy": "rod",
                "statistics": {},
                "update": None,
                "placement": operators_at(self.problem, self.look.observation.placement),
                **_snapshot(self.problem, self.look, troubles).as_json(),
                **remarks,
            }
        )

    def incident(self, at_s: float, what: str) -> None: ...

    def placed(self, sites: FragmentSites) -> None: ...

    def moved(self, at_s: float, reports: Sequence[MoveReport], asked_by: str) -> None: ...

    def noticed(
        self, sites: FragmentSites, troubles: Mapping[str, str], under_way: Mapping[str, object] | None
    ) -> None:
        self.files.amend_status(sites, troubles, under_way)


def _snapshot(problem: Problem, look: Look, troubles: Mapping[str, str]) -> Snapshot:
    seen = look.observation.measured
    running = {name: each for name, each in seen.fragments.items() if each.running}
    return Snapshot(
        look.observation.at_s,
        seen.at_s,
        {
            site.name: SiteSnapshot(
                (seen.sites[site.name].utilisation or 0.0) * site.capacity,
                False,
                site.capacity,
                100.0,
                [name for name, each in running.items() if each.site == site.name],
            )
            for site in problem.sites
            if site.name in seen.sites
        },
        {
            name: FragmentSnapshot(
                each.site,
                each.input_rate,
                each.output_rate,
                0,
                0,
                each.batches or 1,
                each.batch_s or 0.1,
                0,
                0,
                2_000_000,
                rows_waiting=round(each.waiting or 0.0),
            )
            for name, each in running.items()
        },
        {
            name: QuerySnapshot(each.rate, 0, (each.mean_latency_ms or 0.0) / 1000.0, 0)
            for name, each in seen.queries.items()
        },
        {name: ChannelSnapshot(1000.0, 0, 0, {}, []) for name in running},
        {},
        dict(troubles),
    )


class SimulatedProject:
    """`with SimulatedProject(folder) as project:` it runs meanwhile."""

    def __init__(
        self, folder: Path, problem: Problem = PROBLEM, rates: Sequence[float] = (100.0, 50.0)
    ) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "spark-pipeline.yml").write_text(
            "name: network_monitoring\nlibraries: []\nstorage: storage\n"
        )
        (folder / "mooring.yml").write_text("sites: {oslo: {capacity: 1}, porto: {capacity: 1}}\n")
        self.files = RunFiles(folder / ".mooring")
        self.problem = problem
        self.engine = SimulatedEngine(
            problem, [Constant(rate) for rate in rates], np.random.default_rng(0), horizon_s=5000.0
        )
        self.session = self._session()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.failure: BaseException | None = None

    def _session(self) -> RunSession:
        clock = FastClock(self.engine)
        wish = Wish("rod")
        self.book = StatusBook(self.problem, self.files)
        session = RunSession(
            self.problem,
            self.engine,
            clock,
            FileMailbox(self.files.folder),
            journal=Journal(self.files.folder, clock.now_s),
            book=self.book,
            reviver=SimulatedRevival(self.engine),
            replan=wish.replan,
            decider=HeadroomDecider(),
            options=SessionOptions(look_s=4.0),
        )
        self._shown(session)
        return session

    def _shown(self, session: RunSession) -> None:
        """The book is told of the look before it writes it down."""
        publish = session.apply

        def apply(look: Look) -> None:
            self.book.show(look)
            publish(look)

        session.apply = apply  # type: ignore[method-assign]

    def _run(self) -> None:
        try:
            self.session.start(Placement.from_fragments(self.problem, self._first()), "by hand")
            self.session.run(lambda passed: self._over.is_set())
        except BaseException as failure:
            self.failure = failure

    def _first(self) -> FragmentSites:
        return (
            ALL_AT_OSLO
            if self.problem is PROBLEM
            else FragmentSites(
                {
                    name: self.problem.sites[f % len(self.problem.sites)].name
                    for f, name in enumerate(self.problem.fragment_names)
                }
            )
        )

    def __enter__(self) -> SimulatedProject:
        self.files.hold()
        write_whole(self.files.folder / PROBLEM_FILE_NAME, problem_to_json(self.problem))
        self._thread.start()
        return self

    def pause(self) -> None:
        """Let nothing happen any more: what was last written stays."""
        self._over.set()
        self._thread.join(60.0)

    def __exit__(self, *raised: Any) -> None:
        self.pause()
        self.files.let_go()
        assert self.failure is None, self.failure
