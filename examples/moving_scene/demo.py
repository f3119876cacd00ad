"""A scene whose busy region moves, computed in chunks on Spark, and pictures of what came out.

    python examples/moving_scene/demo.py [--frames 12] [--clip FILE] [--output out/moving_scene]

Two streaming queries on a small Spark server: one subtracts the background and smooths what is left, in
chunks whose route is planned anew after every frame; the other finds the edges. Every frame becomes one
picture: the frame, the three results, and the CPU of each chunk as a heat map over the frame, framed in the
colour of its bin. Results are compared with those of whole frames, byte for byte. A clip takes the place of
the scene with --clip.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from pyspark.sql import SparkSession
from scene.clip import read_clip
from scene.moving_scene import MovingScene
from scene.scene_functions import edges, foreground, smooth

from mooring.arrays import Bytes, Cells
from mooring.chunks.data.array_frame import ArrayFrame
from mooring.chunks.data.array_function import ArrayFunction
from mooring.chunks.data.chunk_time import ChunkTime
from mooring.spark.chunks.bins import LearningBins
from mooring.spark.chunks.chunked import chunked
from mooring.spark.chunks.frame_rows import FRAME_COLUMNS, GATHERED_COLUMNS, frame_table, frames_of, times_of
from mooring.spark.jobs.batch_session import batch_session

CORES = 2
BIN_COLOURS = ("#1b6ca8", "#d9822b", "#3a9d5d", "#b5403c")


def video(clip: Path | None, count: int) -> tuple[list[Bytes], Bytes]:
    """Frames, and the background: of a clip, what most of its frames agree in."""
    if clip is not None:
        frames = list(read_clip(clip, count))
        return frames, np.median(np.stack(frames), axis=0).astype(np.uint8)
    scene = MovingScene((480, 640), frames_per_lap=4 * count)
    return [scene.cells(number) for number in range(count)], scene.background


def apply(
    session: SparkSession, source: Path, schema: str, target: Path, functions: Sequence[ArrayFunction]
) -> None:
    """A streaming query over all that lies in `source`, one file per micro-batch."""
    frames = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    for function in functions:
        frames = chunked(frames, function, LearningBins.on_cores(target / "routes", CORES))
    writer = frames.writeStream.format("parquet").option("path", str(target / "results"))
    writer = writer.option("checkpointLocation", str(target / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def results(folder: Path) -> dict[int, tuple[Cells, list[ChunkTime]]]:
    found = {}
    for file in (folder / "results").glob("*.parquet"):
        table = pq.read_table(file)
        for frame, times in zip(frames_of(table), table.column("chunk_times").to_pylist(), strict=True):
            found[frame.number] = (frame.cells, times_of(times))
    return found


def draw_heat(axes: Axes, shape: tuple[int, ...], times: Sequence[ChunkTime]) -> None:
    """CPU microseconds per cell, chunk by chunk."""
    heat = np.zeros(shape)
    for took in times:
        where = tuple(map(slice, took.start, took.stop))
        heat[where] = 1000.0 * took.cpu_ms / heat[where].size
    axes.imshow(heat, cmap="inferno")
    for took in times:
        (top, left), (bottom, right) = took.start, took.stop
        colour = BIN_COLOURS[took.node % len(BIN_COLOURS)]
        size = (right - left - 3, bottom - top - 3)
        axes.add_patch(Rectangle((left + 1, top + 1), *size, fill=False, edgecolor=colour, linewidth=2))
    per_bin = [sum(took.cpu_ms for took in times if took.node == node) for node in range(CORES)]
    axes.set_title("CPU per cell; " + " + ".join(f"{ms:.0f}" for ms in per_bin) + " ms in the bins")


def draw_frame(path: Path, pictures: dict[str, Cells], times: Sequence[ChunkTime]) -> None:
    figure = Figure(figsize=(15, 6.5), layout="constrained")
    grid = figure.subplots(2, 3).ravel()
    for axes, (name, cells) in zip(grid, pictures.items(), strict=False):
        axes.imshow(cells, cmap="gray")
        axes.set_title(name)
    draw_heat(grid[4], next(iter(pictures.values())).shape, times)
    for axes in grid:
        axes.axis("off")
    figure.savefig(path, dpi=80)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--clip", type=Path)
    parser.add_argument("--output", type=Path, default=Path("out/moving_scene"))
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    frames, background = video(args.clip, args.frames)
    subtract, soften, outline = foreground(background), smooth(rounds=200, radius=3), edges()
    with tempfile.TemporaryDirectory(prefix="mooring-scene-") as work:
        inbox, first, second = Path(work, "in"), Path(work, "smooth"), Path(work, "edges")
        inbox.mkdir()
        for number, cells in enumerate(frames):
            pq.write_table(frame_table([ArrayFrame(number, 0.0, cells)]), inbox / f"{number:04d}.parquet")
        with batch_session(f"local[{CORES}]") as session:
            apply(session, inbox, FRAME_COLUMNS, first, [subtract, soften])
            apply(session, first / "results", GATHERED_COLUMNS, second, [outline])
        smoothed, outlined = results(first), results(second)
    different = 0
    for number, cells in enumerate(frames):
        moved = subtract.whole(cells)
        expected = soften.whole(moved)
        soft, outlines = smoothed[number][0], outlined[number][0]
        different += soft.tobytes() != expected.tobytes()
        different += outlines.tobytes() != outline.whole(expected).tobytes()
        pictures = {"frame": cells, "foreground": moved, "smooth": soft, "edges": outlines}
        draw_frame(args.output / f"frame_{number:04d}.png", pictures, smoothed[number][1])
    verdict = "equal to those of whole frames, byte for byte" if not different else "DIFFERENT"
    print(f"{len(frames)} frames in order; results {verdict}; pictures in {args.output}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
