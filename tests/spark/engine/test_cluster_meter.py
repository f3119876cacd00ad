"""Executors are seen, what others do on them is told apart, and waiting for a slot loses no site."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.contracts.engine import Measurement
from mooring.model.placement.placement import FragmentSites
from mooring.spark.engine.engine import EngineOptions, SparkEngine
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import check_storage, read_layout
from mooring.spark.sites.endpoint import Endpoint, close_session, open_session
from mooring.spark.sites.sites import SiteHandle, SiteHandles
from mooring.spark.sites.spark_ui import Cluster, UiConnection
from tests.spark.runs.conftest import KEPT, EvenNumbers, wait

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker
    from tests.spark.shared_cluster import SharedCluster

SETTINGS = "sites: {here: {capacity: 3}}\ntrigger_s: 0.5\n"
HELD_S = 8


def test_executors_are_seen_and_those_whose_slots_others_hold_are_not_lost(
    make_project: ProjectMaker, cluster: SharedCluster
) -> None:
    project = EvenNumbers(make_project(settings=SETTINGS, kept_py=KEPT))
    project.feed(range(20))
    loaded, endpoint = load_project(project.folder), Endpoint(cluster.url)
    seen = Cluster(UiConnection(cluster.ui), most_cores=3.0)
    sites = SiteHandles([SiteHandle("here", 3.0, endpoint, None, seen)])
    check_storage(loaded, sites)
    engine = SparkEngine(
        read_layout(loaded, sites["here"]), sites, {"kept": "kept"}, EngineOptions(silence_s=3)
    )
    other = open_session(endpoint)
    hold = f"java_method('java.lang.Thread', 'sleep', {1000 * HELD_S}L)"
    job = threading.Thread(target=lambda: other.range(0, 2, 1, 2).selectExpr(hold).collect(), daemon=True)
    looks: list[Measurement] = []

    def look() -> Measurement:
        assert engine.inspect() == []
        looks.append(engine.measure())
        return looks[-1]

    try:
        engine.start_all(FragmentSites(dict.fromkeys(engine.layout.fragments, "here")))
        wait(lambda: project.kept() == list(range(0, 20, 2)), "the first rows")
        wait(lambda: look().sites["here"].executors == len(cluster.worker_pids), "the executors")
        assert not looks[-1].sites["here"].estimated
        assert looks[-1].sites["here"].grows
        project.feed(range(20, 40))
        wait(lambda: project.kept() == list(range(0, 40, 2)), "more rows")
        wait(lambda: (look().fragments["numbers"].cores or 0.0) > 0.0, "the CPU of its tasks")
        report = looks[-1].sites["here"]
        assert report.utilisation is not None
        assert 2.0 < (report.capacity_cores or 0.0) < 4.0  # its driver's cores are on both sides
        job.start()
        wait(lambda: look().sites["here"].held_slots == 2, "the other's tasks")
        project.feed(range(40, 60))
        while job.is_alive():
            look()
        wait(lambda: project.kept() == list(range(0, 60, 2)), "the rows after that")
    finally:
        close_session(other)
        engine.close()
