"""Ways to cut and route the same frames over sites of unlike speed: what the experiment measures.

The sites are held to CPU quotas, so that their speeds are what they are said to be. As with slots, frames are
given to all ways in turn, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.quota_bench.bench import quota_probe, refuse_unheld, require_quota
from lab.quota_bench.chunk_slot_bench import PATIENCE_S, MeasuredFrame
from mooring.arrays import Cells
from mooring.chunks.data.array_frame import ArrayFrame
from mooring.chunks.data.array_function import ArrayFunction
from mooring.chunks.data.chunk_flow import ArrayStep, ChunkFlow, Router
from mooring.model.problem.site import Site
from mooring.spark.chunks.chunk_rows import wall_ms
from mooring.spark.chunks.site_nodes import SiteNodes
from mooring.spark.sites.sites import SiteHandles, running_sites

STREAM = "frames"


@contextmanager
def quota_sites(quotas: Mapping[str, float], folder: Path) -> Iterator[SiteHandles]:
    """Embedded sites, each held to its quota from the start of the block; refused where that cannot be."""
    require_quota(quota_probe())
    wanted = [Site(name=name, capacity=cores) for name, cores in quotas.items()]
    with running_sites(wanted, folder) as sites:
        sites.hold_to_capacity()
        refuse_unheld(sites)
        yield sites


@contextmanager
def site_ways(
    sites: SiteHandles, function: ArrayFunction, routers: Mapping[str, Router]
) -> Iterator[dict[str, SiteNodes]]:
    """The same sites, once per way."""
    with ExitStack() as stack:
        ways = {}
        for name, router in routers.items():
            flow = ChunkFlow([ArrayStep(function, (STREAM,))], len(sites), router)
            nodes = SiteNodes(list(sites.values()), flow, {function.name: function})
            ways[name] = stack.enter_context(nodes.working())
        yield ways


def put_frame(nodes: SiteNodes, number: int, cells: Cells) -> MeasuredFrame:
    """Give the sites one frame, and wait for the result."""
    entered_ms = wall_ms()
    nodes.put(STREAM, ArrayFrame(number, entered_ms, cells))
    (made,) = nodes.gathered(PATIENCE_S)
    return MeasuredFrame(
        number,
        made.frame.cells,
        made.gathered_ms - made.scattered_ms,
        wall_ms() - entered_ms,
        list(made.times),
    )
