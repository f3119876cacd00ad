"""A user's own flow: the example's pipeline, read and started as `mooring run` does."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from examples.moving_scene.scene.moving_scene import MovingScene
from examples.moving_scene.scene.scene_functions import edges, foreground, smooth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mooring.spark.sites.embedded_site import EmbeddedSite

EXAMPLE = Path(__file__).parents[3] / "examples" / "moving_scene"
PATIENCE_S = 120.0


def test_the_example_computes_frames_in_chunks_within_a_fragment(
    site: EmbeddedSite, session: SparkSession, tmp_path: Path
) -> None:
    from mooring.spark.chunks.frame_rows import frame_table, frames_of
    from mooring.spark.definitions.definitions import load_definitions
    from mooring.spark.engine.fragment_query import prepare_fragment
    from mooring.spark.pipeline.layout import cut_pipeline
    from mooring.spark.pipeline.pipeline import read_pipeline
    from mooring.spark.pipeline.project import load_project
    from mooring.spark.runs.results import read_stored
    from mooring.spark.sites.endpoint import close_session

    folder = tmp_path / "moving_scene"
    shutil.copytree(EXAMPLE, folder)
    (folder / "input").mkdir()
    scene = MovingScene()
    for number in range(2):
        pq.write_table(frame_table([scene.frame(number)]), folder / "input" / f"{number}.parquet")
    project = load_project(folder)
    (project.settings.storage / "empty").mkdir(parents=True)
    definitions = load_definitions(folder, project.spec, session)
    layout = cut_pipeline(
        project, read_pipeline(project.spec, definitions, session, project.settings.storage / "empty")
    )
    layout.create()
    running = [
        prepare_fragment(layout, fragment, "here", site.endpoint).start()
        for fragment in layout.fragments.values()
    ]
    try:
        deadline = time.monotonic() + PATIENCE_S
        while (rows := read_stored(layout.root, "outlines")).num_rows < 2:
            assert time.monotonic() < deadline
            assert [fragment.query.exception() for fragment in running] == [None] * len(running)
            time.sleep(0.1)
    finally:
        for fragment in running:
            fragment.query.stop()
            close_session(fragment.session)
    steps = (foreground(scene.background), smooth(rounds=60), edges())
    for frame in frames_of(rows):
        cells = scene.cells(frame.number)
        for step in steps:
            cells = step.whole(cells)
        assert frame.cells.tobytes() == cells.tobytes()
    assert (folder / "routes" / "smooth.routes.json").exists()
