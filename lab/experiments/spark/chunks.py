"""Planned chunks on Spark against equal ones, with a busy region that moves (chunks paper, sections 2 to 5).

Two settings. *Slots*: a server with two cores of the same speed; equal chunks, one per core; planned chunks,
whose route is learned from the frames before; and the same finer chunks with a task each, given to the cores
by Spark's own scheduler. *Sites*: two servers held to different CPU quotas; equal chunks, one per site, and
planned ones. All ways get the same frames in turn, one at a time, and their results are compared byte for
byte.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row
from mooring.arrays import Bytes, Cells
from mooring.chunks.data.array_function import ArrayFunction
from mooring.chunks.data.chunk_flow import Router
from mooring.chunks.data.learned_routes import LearnedRoutes, equal_chunks
from mooring.chunks.data.routers import EarliestFinishRouter, EqualRouter
from mooring.chunks.data.routing_table import Route, RoutingTable
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lab.quota_bench.chunk_slot_bench import MeasuredFrame

CORES = 2
QUOTAS = {"fast": 1.0, "slow": 0.4}
FINE = (4, 4)
"""The chunks that Spark schedules by itself; planned ones are at most as many."""
JOB_MS = 150.0
"""CPU that a site spends on a job beside its chunks: planning it, starting its task, taking the cells in."""
WARM_UP = 4
"""First frames of every way that do not count: servers warm up, and costs are learned."""
CHECKED = 8
"""Every so many frames are compared with the whole-frame result, the others with one another."""


@dataclass(frozen=True)
class Sizes:
    shape: tuple[int, int]
    rounds: int
    radius: int
    lap: int
    """Frames in which the thing goes around."""

    @property
    def counted(self) -> int:
        """A quarter of a lap, from the middle of the frame's height to its lowest: what equal chunks meet
        there they meet in every other quarter, upside down or the other way around.
        """
        return self.lap // 4

    @property
    def function(self) -> ArrayFunction:
        _find_examples()
        from examples.moving_scene.scene.scene_functions import smooth

        return smooth(self.rounds, self.radius)


FULL = Sizes((1080, 1920), rounds=300, radius=4, lap=72)
"""Starting a micro-batch takes near half a second: the work of a frame has to be well above that. From one
frame to the next the thing moves a quarter of its radius."""
QUICK = Sizes((480, 640), rounds=150, radius=4, lap=16)


def _find_examples() -> None:
    """The scene is an example's, and examples lie beside the lab in a checkout."""
    checkout = str(Path(__file__).parents[3])
    if checkout not in sys.path:
        sys.path.append(checkout)


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    _find_examples()
    from examples.moving_scene.scene.moving_scene import MovingScene
    from examples.moving_scene.scene.scene_functions import foreground

    sizes = QUICK if quick else FULL
    scene = MovingScene(sizes.shape, frames_per_lap=sizes.lap, seed=seed)
    subtract = foreground(scene.background)
    numbers = range(sizes.lap - WARM_UP, sizes.lap + sizes.counted)
    frames = [subtract.whole(scene.cells(number)) for number in numbers]
    with TemporaryDirectory(prefix="mooring-chunks-") as folder:
        rows = _slots(sizes, frames, Path(folder, "slots"), report)
        return rows + _sites(sizes, frames, Path(folder, "sites"), report)


def _slots(sizes: Sizes, frames: Sequence[Bytes], folder: Path, report: Report) -> list[Row]:
    from lab.quota_bench.chunk_slot_bench import frame_queries
    from mooring.spark.chunks.bins import Bins, FixedBins, LearningBins
    from mooring.spark.jobs.batch_session import batch_session

    function, fine = sizes.function, Route(FINE, tuple(range(FINE[0] * FINE[1])))
    planner = LearnedRoutes((1.0,) * CORES, len(fine.nodes))
    ways: dict[str, Bins] = {
        "equal": FixedBins(CORES, _table(function, equal_chunks(sizes.shape, CORES))),
        "planned": LearningBins(folder / "routes", planner),
        "Spark's own": FixedBins(len(fine.nodes), _table(function, fine)),
    }
    report(0.0, "slots: starting a server")
    with (
        batch_session(f"local[{CORES}]") as session,
        frame_queries(session, folder, function, ways) as queries,
    ):
        return _measured("slots", sizes, frames, {n: q.put for n, q in queries.items()}, (0.02, 0.5), report)


def _sites(sizes: Sizes, frames: Sequence[Bytes], folder: Path, report: Report) -> list[Row]:
    from lab.quota_bench.chunk_site_bench import put_frame, quota_sites, site_ways

    planner = LearnedRoutes(tuple(QUOTAS.values()), FINE[0] * FINE[1], job_ms=JOB_MS)
    routers: dict[str, Router] = {"equal": EqualRouter(len(QUOTAS)), "planned": EarliestFinishRouter(planner)}
    report(0.5, f"sites: starting {len(QUOTAS)} servers")
    with quota_sites(QUOTAS, folder) as sites, site_ways(sites, sizes.function, routers) as ways:
        puts = {name: partial(put_frame, nodes) for name, nodes in ways.items()}
        return _measured("sites", sizes, frames, puts, (0.52, 1.0), report)


def _table(function: ArrayFunction, route: Route) -> RoutingTable:
    return RoutingTable.starting_with({function.name: route})


def _measured(
    part: str,
    sizes: Sizes,
    frames: Sequence[Bytes],
    ways: Mapping[str, Callable[[int, Cells], MeasuredFrame]],
    progress: tuple[float, float],
    report: Report,
) -> list[Row]:
    """Every frame through every way, in turn."""
    rows: list[Row] = []
    for number, cells in enumerate(frames):
        done = progress[0] + (progress[1] - progress[0]) * number / len(frames)
        report(done, f"{part}: frame {number + 1} of {len(frames)}")
        made = {name: put(number, cells) for name, put in ways.items()}
        # Computing whole frames here would take as long again: every eighth, the others among themselves.
        whole = number % CHECKED == 0
        expected = sizes.function.whole(cells) if whole else next(iter(made.values())).cells
        for name, frame in made.items():
            rows.append(
                {
                    "part": part,
                    "chunks_are": name,
                    "frame": number,
                    "counts": int(number >= WARM_UP),
                    "scatter_to_gather_ms": frame.scatter_to_gather_ms,
                    "end_to_end_ms": frame.end_to_end_ms,
                    "busiest_cpu_ms": frame.busiest_cpu_ms,
                    "cpu_ms": frame.cpu_ms,
                    "chunks": len(frame.times),
                    "same_bytes": int(frame.cells.tobytes() == expected.tobytes()),
                }
            )
    return rows


def conclude(rows: Sequence[Row]) -> list[str]:
    sentences = []
    for part in dict.fromkeys(str(row["part"]) for row in rows):
        means = {
            (way, column): float(np.mean([float(row[column]) for row in own]))
            for way in dict.fromkeys(str(row["chunks_are"]) for row in rows if row["part"] == part)
            if (own := [r for r in rows if r["part"] == part and r["chunks_are"] == way and r["counts"]])
            for column in ("scatter_to_gather_ms", "end_to_end_ms")
        }
        for way in dict.fromkeys(way for way, _ in means if way != "equal"):
            inside, whole = (
                1 - means[way, column] / means["equal", column]
                for column in ("scatter_to_gather_ms", "end_to_end_ms")
            )
            sentences.append(
                f"{part}: {way} against equal chunks, {_change(inside)} from scatter to gather, "
                f"{_change(whole)} end to end."
            )
    same = all(row["same_bytes"] for row in rows)
    return [*sentences, f"Results of all ways were {'equal byte for byte' if same else 'DIFFERENT'}."]


def _change(less: float) -> str:
    return f"{abs(less):.0%} {'less' if less >= 0 else 'more'}"


def draw(rows: Sequence[Row]) -> Figure:

    colours = {"equal": "#b5403c", "planned": "#1b6ca8", "Spark's own": "#3a9d5d"}
    parts = list(dict.fromkeys(str(row["part"]) for row in rows))
    figure, sides = panels(10, 4, len(parts))
    for axes, part in zip(sides, parts, strict=True):
        own = [row for row in rows if row["part"] == part and row["counts"]]
        for way in dict.fromkeys(str(row["chunks_are"]) for row in own):
            points = [(row["frame"], row["scatter_to_gather_ms"]) for row in own if row["chunks_are"] == way]
            axes.plot(*zip(*points, strict=True), color=colours.get(way), label=way)
        axes.set(title=part, xlabel="frame", ylabel="scatter to gather, ms", ylim=(0, None))
        finish(axes)
    return figure


SPARK_CHUNKS = Experiment(
    name="spark_chunks",
    title="Planned chunks on Spark against equal chunks",
    source="fine-grained load distribution, sections 2 to 5, on Spark",
    columns={
        "part": "slots: two like cores of one server; sites: servers held to unlike CPU quotas",
        "chunks_are": "how frames are cut and routed",
        "frame": "number of the frame",
        "counts": "0: while servers warm up and costs are learned",
        "scatter_to_gather_ms": "from when a frame is cut until it is whole again",
        "end_to_end_ms": "from when a frame can be read until its result can be",
        "busiest_cpu_ms": "CPU of the chunks at the node that has the most",
        "cpu_ms": "CPU of all chunks",
        "chunks": "chunks",
        "same_bytes": "1: the result is that of equal chunks, and of every eighth whole frame, byte for byte",
    },
    summaries=(
        Summary(
            by=("part", "chunks_are"),
            where=lambda row: row["counts"] == 1,
            shown=(
                Shown("scatter_to_gather_ms", "gathered after, ms"),
                Shown("end_to_end_ms", "end to end, ms"),
                Shown("busiest_cpu_ms", "busiest CPU, ms"),
                Shown("cpu_ms", "CPU, ms"),
                Shown("chunks", "chunks", how="mean alone"),
            ),
            counted="frames",
        ),
    ),
    setting="Smoothing what moves in 1080 x 1920 cells, over four CPU s a frame; sites of 1 and 0.4 cores.",
    run=run,
    draw=draw,
    conclude=conclude,
    drives_sites=True,
)
