"""The scene's busy region moves, and its functions give the same bytes in whichever chunks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from examples.moving_scene.scene.moving_scene import MovingScene
from examples.moving_scene.scene.scene_functions import edges, foreground, smooth
from mooring.chunks.data.array_function import ArrayFunction
from mooring.chunks.data.scatter_gather import Gather, Scatter, compute
from mooring.chunks.partitioning import Partitioning
from mooring.errors import InputError

SCENE = MovingScene((48, 64), frames_per_lap=20)


def in_chunks(function: ArrayFunction, number: int, parts: tuple[int, int]) -> bytes:
    frame, gather = SCENE.frame(number), Gather(number)
    for chunk in Scatter(function, "").cut([frame], Partitioning(parts).bounds(SCENE.shape)):
        gather.add(compute(chunk, {function.name: function}))
    (whole,) = gather.complete()
    return whole.cells.tobytes()


@pytest.mark.parametrize("function", [foreground(SCENE.background), smooth(5), edges()], ids=lambda f: f.name)
@pytest.mark.parametrize("parts", [(1, 2), (7, 5), (48, 1), (16, 32)])
def test_the_same_bytes_in_whichever_chunks(function: ArrayFunction, parts: tuple[int, int]) -> None:
    for number in (0, 7):
        assert in_chunks(function, number, parts) == function.whole(SCENE.cells(number)).tobytes()


def test_what_moved_is_where_the_thing_is_and_it_goes_around() -> None:
    middles = []
    for number in range(0, 20, 5):
        moved = foreground(SCENE.background).whole(SCENE.cells(number)) > 0
        middle = np.argwhere(moved).mean(axis=0)
        np.testing.assert_allclose(middle, SCENE.centre(number), atol=1.0)
        middles.append(middle)
    assert min(np.hypot(*(a - b)) for a, b in itertools.pairwise(middles)) > 10


def test_a_frame_depends_on_its_number_alone() -> None:
    np.testing.assert_array_equal(SCENE.cells(3), MovingScene((48, 64), frames_per_lap=20).cells(3))
    assert not np.array_equal(SCENE.cells(3), SCENE.cells(4))


def test_a_scene_too_small_to_see_is_refused() -> None:
    with pytest.raises(InputError, match="at least 8 x 8"):
        MovingScene((4, 4))
