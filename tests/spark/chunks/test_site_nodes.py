"""Sites as nodes: chunks run where they were sent, and a site killed in the middle of a frame loses none."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mooring.arrays import Cells
from mooring.chunks.data.array_frame import ArrayFrame
from mooring.chunks.data.array_function import ArrayFunction, CellToCell, RegionToCell, shifted_sum
from mooring.chunks.data.chunk_flow import ArrayStep, ChunkFlow, GatheredFrame
from mooring.chunks.data.routers import TableRouter
from mooring.chunks.data.routing_table import Route, RoutingTable
from mooring.chunks.partitioning import Bounds
from mooring.errors import EngineError

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from mooring.spark.sites.sites import SiteHandle

FRAMES = [ArrayFrame(n, 10.0 * n, np.random.default_rng(n).random((24, 20))) for n in range(4)]
HALVES = Route((2, 1), (0, 1))


def blur() -> ArrayFunction:
    def kernel(window: Cells, where: Bounds) -> Cells:
        return shifted_sum(window, np.full((3, 3), 1 / 9))

    return ArrayFunction("blur", RegionToCell.window(1, 1), kernel)


def edges_that_end_their_site(marker: Path, victim: float) -> ArrayFunction:
    """Once, when it meets the given cell: kills the server whose Python worker runs it."""

    def kernel(cells: Cells, where: Bounds) -> Cells:
        if not marker.exists() and float(cells[-1, -1]) == victim:
            marker.touch()
            stat = Path(f"/proc/{os.getppid()}/stat").read_text()  # of the workers' daemon
            os.kill(int(stat[stat.rindex(")") + 2 :].split()[1]), signal.SIGKILL)
        return np.abs(np.diff(cells, axis=1, prepend=0.0))

    return ArrayFunction("edges", CellToCell(), kernel)


def handle(site: EmbeddedSite, name: str) -> SiteHandle:
    from mooring.spark.sites.sites import SiteHandle

    return SiteHandle(name, site.capacity, site.endpoint, site)


@pytest.mark.spark
def test_a_site_killed_in_the_middle_of_a_frame_loses_no_frame(site: EmbeddedSite, tmp_path: Path) -> None:
    from mooring.spark.chunks.site_nodes import SiteNodes
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from mooring.spark.sites.java import find_java
    from tests.spark.quick_start import quick_start

    first = blur()
    blurred = [first.whole(frame.cells) for frame in FRAMES]
    last = edges_that_end_their_site(tmp_path / "died", float(blurred[2][-1, -1]))
    steps = [ArrayStep(first, ("camera",)), ArrayStep(last, ("blur",))]
    router = TableRouter(RoutingTable.starting_with({"blur": HALVES, "edges": HALVES}))
    flow = ChunkFlow(steps, 2, router)
    folder = tmp_path / "doomed"
    doomed = EmbeddedSite("doomed", folder, find_java(), capacity=0.9, options=quick_start())
    doomed.start()
    try:
        doomed.wait_ready()
        sites = [handle(site, "here"), handle(doomed, "doomed")]
        nodes = SiteNodes(sites, flow, {step.name: step.function for step in steps})
        out: list[GatheredFrame] = []
        with nodes.working():
            for frame in FRAMES:
                nodes.put("camera", frame)
            while len(out) < len(FRAMES):
                out += [made for made in nodes.gathered(120.0) if made.operator == "edges"]
    finally:
        doomed.stop()
    assert nodes.lost == ["doomed"]
    assert [made.frame.number for made in out] == [frame.number for frame in FRAMES]
    (tmp_path / "died").touch()
    for made, cells in zip(out, blurred, strict=True):
        assert made.frame.cells.tobytes() == np.abs(np.diff(cells, axis=1, prepend=0.0)).tobytes()
    assert {took.node for made in out[:2] for took in made.times} == {0, 1}
    assert {took.node for made in out[3:] for took in made.times} == {0}


def test_a_function_that_always_fails_is_said_after_three_attempts(site: EmbeddedSite) -> None:
    from mooring.spark.chunks.site_nodes import SiteNodes

    def kernel(cells: Cells, where: Bounds) -> Cells:
        raise ValueError("no such luck")

    function = ArrayFunction("blur", CellToCell(), kernel)
    router = TableRouter(RoutingTable.starting_with({"blur": Route((1, 1), (0,))}))
    flow = ChunkFlow([ArrayStep(function, ("camera",))], 1, router)
    nodes = SiteNodes([handle(site, "here")], flow, {"blur": function})
    with nodes.working():
        nodes.put("camera", FRAMES[0])
        with pytest.raises(EngineError, match="failed 3 times at the site here"):
            nodes.gathered(120.0)
