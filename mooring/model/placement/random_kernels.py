"""A random generator for kernels: a seed fixes what they do on every machine."""

from __future__ import annotations

import numpy as np
from numba import njit

from mooring.arrays import Words


@njit(cache=True)
def random_word(word: Words) -> np.uint64:
    """xorshift64*: a generator of the search's own, so that a seed fixes the plan on every machine."""
    x = word[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    word[0] = x
    result: np.uint64 = x * np.uint64(2685821657736338717)
    return result


@njit(cache=True)
def random_unit(word: Words) -> float:
    return float(random_word(word) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True)
def random_index(word: Words, count: int) -> int:
    return min(int(random_unit(word) * count), count - 1)
