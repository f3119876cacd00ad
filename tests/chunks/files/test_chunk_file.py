"""A chunk file says what it means, and every mistake is named with its field."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mooring.chunks.files.chunk_file import chunk_problem_from_data, load_chunk_problem
from mooring.chunks.model import ChunkProblem, LoadStep
from mooring.errors import InputError
from mooring.model.problem.reading.yaml12 import parse_yaml

EXAMPLE = Path(__file__).parents[3] / "examples" / "cameras.yaml"
SMALL = """
sites: {a: {capacity: 2}, b: {capacity: 0.5}}
streams: {camera: {rate: 10, bytes: 600}}
frames:
  streams: {camera: {shape: [10, 20]}}
  operators:
    blur: {inputs: [camera], mapping: region, halo: [1, 2], cost_us: 3, chunk_us: 50}
"""


def read(text: str) -> ChunkProblem:
    return chunk_problem_from_data(parse_yaml(text))


def test_the_example_is_read() -> None:
    problem = load_chunk_problem(EXAMPLE)
    assert problem.frames_per_s == 4
    north, south, both, tracks = (problem.operators[k] for k in range(4))
    assert (str(north.mapping), north.halo, north.shape) == ("region to cell", (2, 2), (240, 320))
    assert list(north.complexity.cells_per_frame) == [0.0, 8.0]
    assert south.complexity.frame_cycles((240, 320)) == pytest.approx(0.6 * 240 * 320)
    assert (both.inputs, str(both.mapping)) == (("motion_north", "motion_south"), "cell to cell")
    assert (str(tracks.mapping), tracks.shape, tracks.cell_bytes) == ("cannot be cut", (64, 4), 4)
    hall, mast = problem.sites[0], problem.sites[2]
    assert (hall.cores, hall.cycles_per_s) == (4, 1e6)
    assert (mast.cycles_per_s, mast.external_load) == (5e5, (LoadStep(0, 0.2), LoadStep(5, 0.6)))


def test_capacities_and_bytes_are_those_of_problem_files() -> None:
    problem = read(SMALL)
    assert [(site.cores, site.cycles_per_s) for site in problem.sites] == [(2, 1e6), (1, 5e5)]
    assert problem.streams[0].cell_bytes == 3
    assert problem.operators[0].cell_bytes == 3
    assert problem.operators[0].cycles_per_chunk == 50
    np.testing.assert_array_equal(problem.operators[0].complexity.cycles_per_cell, [[3.0]])


def test_operators_may_stand_in_any_order() -> None:
    later = SMALL.replace("operators:", "operators:\n    edges: {inputs: [blur], cost_us: 1}")
    assert [each.name for each in read(later).operators] == ["edges", "blur"]
    assert read(later).operators[0].shape == (10, 20)


@pytest.mark.parametrize(
    ("old", "new", "field", "said"),
    [
        ("frames:", "frame:", None, "did you mean 'frames'?"),
        ("shape: [10, 20]", "shape: 200", "frames.streams.camera.shape", "such as"),
        ("shape: [10, 20]", "shape: [10, 0]", "frames.streams.camera.shape[1]", "from 1 to"),
        ("{camera: {shape: [10, 20]}}", "{}", "frames.streams.camera.shape", "found nothing"),
        ("{camera: {shape", "{camra: {shape", "frames.streams.camra", "did you mean 'camera'?"),
        ("inputs: [camera]", "inputs: [camra]", "frames.operators.blur.inputs[0]", "did you mean"),
        ("inputs: [camera]", "inputs: [blur]", "frames.operators", "wait for one another: blur"),
        ("inputs: [camera], ", "", "frames.operators.blur.inputs", "a list of streams or operators"),
        ("mapping: region", "mapping: regional", "frames.operators.blur.mapping", "did you mean region?"),
        ("halo: [1, 2]", "halo: [1]", "frames.operators.blur.halo", "2 numbers"),
        ("halo: [1, 2]", "halo: [1, -2]", "frames.operators.blur.halo[1]", "from 0 up"),
        ("mapping: region, ", "", "frames.operators.blur.halo", "only where mapping is region"),
        ("mapping: region, halo: [1, 2]", "boundary: wrap", "frames.operators.blur.boundary", "only where"),
        ("cost_us: 3, ", "", "frames.operators.blur.cost_us", "per output cell"),
        ("cost_us: 3", "cost_us: {map: [[1], [2, 3]]}", "frames.operators.blur.cost_us.map", "equal length"),
        ("cost_us: 3", "cost_us: {map: [1, 2]}", "frames.operators.blur.cost_us.map", "as the shape"),
        ("cost_us: 3", "cost_us: {moves: [1]}", "frames.operators.blur.cost_us.map", "found nothing"),
        (
            "cost_us: 3",
            "cost_us: {map: [[1, 2]], moves: [1]}",
            "frames.operators.blur.cost_us.moves",
            "2 numbers",
        ),
        ("{rate: 10, bytes: 600}", "{rate: 0}", "streams.camera.rate", "above zero"),
        (
            "streams: {camera: {rate: 10, bytes: 600}}",
            "streams: {camera: {rate: 10}, other: {rate: 9}}",
            "frames.streams.other.shape",
            "the shape",
        ),
        ("frames:", "frames:\n  sites: {c: {speed: 2}}", "frames.sites.c", "a site of the section sites"),
        ("frames:", "frames:\n  sites: {a: {speed: 0}}", "frames.sites.a.speed", "above zero"),
        (
            "frames:",
            "frames:\n  sites: {a: {load: [{at_s: 0, share: 1}]}}",
            "frames.sites.a.load[0].share",
            "below 1",
        ),
        (
            "frames:",
            "frames:\n  sites: {a: {load: [{at_s: 3, share: 0}, {at_s: 3, share: 0.5}]}}",
            "frames.sites.a.load[1].at_s",
            "a later moment",
        ),
        ("frames:", "frames:\n  switch: {megabits: 10}", "frames.switch", "did you mean 'megabits_per_s'?"),
    ],
)
def test_mistakes_are_named(old: str, new: str, field: str | None, said: str) -> None:
    assert old in SMALL
    with pytest.raises(InputError) as caught:
        read(SMALL.replace(old, new, 1))
    assert caught.value.field == field
    assert said in str(caught.value)


def test_streams_of_different_rates_cannot_meet() -> None:
    text = SMALL.replace("bytes: 600}}", "bytes: 600}, other: {rate: 9}}")
    text = text.replace("[10, 20]}}", "[10, 20]}, other: {shape: [10, 20]}}")
    with pytest.raises(InputError, match="as stream 'camera' has") as caught:
        read(text)
    assert caught.value.field == "streams.other.rate"


def test_a_join_of_unlike_shapes_is_refused() -> None:
    text = SMALL.replace("bytes: 600}}", "bytes: 600}, other: {rate: 10}}")
    text = text.replace("[10, 20]}}", "[10, 20]}, other: {shape: [10, 21]}}")
    text = text.replace("inputs: [camera]", "inputs: [camera, other]")
    with pytest.raises(InputError, match="expected the same") as caught:
        read(text)
    assert caught.value.field == "frames.operators.blur"


def test_a_file_that_is_wrong_is_named(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(SMALL.replace("[camera]", "[cam]"))
    with pytest.raises(InputError) as caught:
        load_chunk_problem(tmp_path / "c.yaml")
    assert caught.value.file == str(tmp_path / "c.yaml")
