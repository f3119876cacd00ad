"""Scrambled Sobol nets: points that fill the unit cube far more evenly than chance, different for every seed.

Bit for bit what `scipy.stats.qmc.Sobol` draws. It is done here because loading `scipy.stats` takes as long as
everything else that a small plan needs, and a net takes but a few lines: a point is the sum, bit by bit, of
some of the direction numbers; scrambling multiplies these by a random triangular matrix of bits (Matousek
1998) and shifts all points.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mooring.arrays import Counts32, Floats

BITS = 30
"""Of a coordinate, and so the most points are 2**30."""

_TABLE = """
1:1 3:1 7:1,3 11:1,3,1 13:1,1,1 19:1,1,3,3 25:1,3,5,13 37:1,1,5,5,17 41:1,1,5,5,5 47:1,1,7,11,19
55:1,1,5,1,1 59:1,1,1,3,11 61:1,3,5,5,31 67:1,3,3,9,7,49 91:1,1,1,15,21,21 97:1,3,1,13,27,49
103:1,1,1,15,7,5 109:1,3,1,15,13,25 115:1,1,5,5,19,61 131:1,3,7,11,23,15,103 137:1,3,7,13,13,15,69
143:1,1,3,13,7,35,63 145:1,3,5,9,1,25,53 157:1,3,1,13,9,35,107 167:1,3,1,5,27,61,31
171:1,1,5,11,19,41,61 185:1,3,5,3,3,13,69 191:1,1,7,13,1,19,1 193:1,3,7,5,13,19,59 203:1,1,3,9,25,29,41
211:1,3,5,13,23,1,55 213:1,3,7,3,13,59,17 229:1,3,1,3,5,53,69 239:1,1,5,5,23,33,13 241:1,1,7,7,1,61,123
247:1,1,7,9,13,61,49 253:1,3,3,5,3,55,33 285:1,3,1,15,31,13,49,245 299:1,3,5,15,31,59,63,97
301:1,3,1,11,11,11,77,249 333:1,3,1,11,27,43,71,9 351:1,1,7,15,21,11,81,45 355:1,3,7,3,25,31,65,79
357:1,3,1,1,19,11,3,205 361:1,1,5,9,19,21,29,157 369:1,3,7,11,1,33,89,185 391:1,3,3,3,15,9,79,71
397:1,3,7,11,15,39,119,27 425:1,1,3,1,11,31,97,225 451:1,1,1,3,23,43,57,177 463:1,3,7,7,17,17,37,71
487:1,3,1,5,27,63,123,213 501:1,1,3,5,11,43,53,133 529:1,3,5,5,29,17,47,173,479
539:1,3,3,11,3,1,109,9,69 545:1,1,1,5,17,39,23,5,343 557:1,3,1,5,25,15,31,103,499
563:1,1,1,11,11,17,63,105,183 601:1,1,5,11,9,29,97,231,363 607:1,1,5,15,19,45,41,7,383
617:1,3,7,7,31,19,83,137,221 623:1,1,1,3,23,15,111,223,83 631:1,1,5,13,31,15,55,25,161
637:1,1,3,13,25,47,39,87,257
"""
"""Per dimension, the bits of a primitive polynomial and its first direction numbers, of Joe and Kuo,
"Constructing Sobol sequences with better two-dimensional projections", SIAM J. Sci. Comput. 30, 2008."""

POLYNOMIALS = {
    int(polynomial): tuple(map(int, numbers.split(",")))
    for polynomial, _, numbers in (word.partition(":") for word in _TABLE.split())
}


def sobol_net(dimensions: int, points: int, rng: np.random.Generator) -> Floats:
    """(points, dimensions): the first points, a power of two, of a net scrambled by a child of `rng`.

    >>> sobol_net(2, 4, np.random.default_rng(0)).round(3).tolist()
    [[0.41, 0.964], [0.722, 0.108], [0.905, 0.529], [0.217, 0.414]]
    """
    if dimensions > len(POLYNOMIALS):
        raise ValueError(f"found {dimensions} dimensions, expected at most {len(POLYNOMIALS)}")
    numbers, shift = scrambled(direction_numbers(dimensions), rng.spawn(1)[0])
    net = np.empty((points, dimensions), np.uint32)
    net[0] = shift
    for bit in range(points.bit_length() - 1):
        # In the order of the Gray code, the next half is the one before in reverse with one more bit set.
        half = 1 << bit
        net[half : 2 * half] = net[half - 1 :: -1] ^ numbers[:, bit]
    return np.asarray(net * 2.0**-BITS)


@lru_cache(maxsize=8)
def direction_numbers(dimensions: int) -> Counts32:
    """(dimensions, BITS), each shifted to the top of its bits."""
    numbers = np.ones((dimensions, BITS), np.uint32)
    for row, (polynomial, first) in zip(numbers[1:], list(POLYNOMIALS.items())[1:], strict=False):
        degree = len(first)
        row[:degree] = first
        for j in range(degree, BITS):
            row[j] = row[j - degree]
            for k in range(1, degree + 1):
                if polynomial >> (degree - k) & 1:
                    row[j] ^= row[j - k] << k
    numbers <<= np.arange(BITS - 1, -1, -1, dtype=np.uint32)
    numbers.setflags(write=False)
    return numbers


def scrambled(numbers: Counts32, rng: np.random.Generator) -> tuple[Counts32, Counts32]:
    """The direction numbers under a random matrix, and a random first point."""
    from_the_top = np.arange(BITS - 1, -1, -1, dtype=np.uint32)
    dimensions = len(numbers)
    shift = rng.integers(2, size=(dimensions, BITS), dtype=np.uint32) << from_the_top[::-1]
    matrices = np.tril(rng.integers(2, size=(dimensions, BITS, BITS), dtype=np.uint32))
    matrices[:, range(BITS), range(BITS)] = 1
    bits = numbers[:, :, None] >> from_the_top & 1
    mixed = bits @ matrices.transpose(0, 2, 1) & 1
    return (mixed << from_the_top).sum(axis=2, dtype=np.uint32), shift.sum(axis=1, dtype=np.uint32)
