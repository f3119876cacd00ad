"""A street at night as a generated video: a still background, noise, and one bright thing that wanders.

Frames are drawn from their number alone, so any of them can be made again, in any order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mooring.arrays import Bytes
from mooring.chunks.data.array_frame import ArrayFrame
from mooring.errors import InputError


@dataclass(frozen=True)
class MovingScene:
    shape: tuple[int, int] = (240, 320)
    radius: float = 0.2
    """Of the thing that moves, as a share of the frame's smaller side."""
    frames_per_lap: int = 60
    """It goes around the frame once in so many frames."""
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.shape) < 8 or not 0 < self.radius <= 0.5 or self.frames_per_lap < 1:
            raise InputError(
                f"found a scene of shape {self.shape}, radius {self.radius} and {self.frames_per_lap} frames "
                "per lap, expected at least 8 x 8 cells, a radius up to 0.5 and at least one frame"
            )

    @cached_property
    def background(self) -> Bytes:
        """What is always there: a slope of light with some texture, 40 to 120."""
        rows, columns = np.indices(self.shape)
        texture = np.random.default_rng((self.seed, 0)).integers(0, 20, self.shape)
        slope = 40 + 40 * rows / self.shape[0] + 20 * columns / self.shape[1]
        return (slope + texture).astype(np.uint8)

    def centre(self, number: int) -> tuple[float, float]:
        """Where the thing is: on an ellipse around the middle."""
        angle = 2 * math.pi * number / self.frames_per_lap
        height, width = self.shape
        return height * (0.5 + 0.28 * math.sin(angle)), width * (0.5 + 0.3 * math.cos(angle))

    def cells(self, number: int) -> Bytes:
        rng = np.random.default_rng((self.seed, 1, number))
        noise = rng.integers(-4, 5, self.shape)
        rows, columns = np.indices(self.shape)
        row, column = self.centre(number)
        inside = (rows - row) ** 2 + (columns - column) ** 2 < (self.radius * min(self.shape)) ** 2
        stripes = 60 + 40 * (((rows - int(row)) // 4 + (columns - int(column)) // 6) % 2)
        lit = self.background.astype(np.int64) + noise + np.where(inside, stripes, 0)
        return np.asarray(np.clip(lit, 0, 255), dtype=np.uint8)

    def frame(self, number: int, entered_ms: float = 0.0) -> ArrayFrame:
        return ArrayFrame(number, entered_ms, self.cells(number))
