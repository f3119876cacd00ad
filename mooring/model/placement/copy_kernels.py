"""Copying between arrays as a loop.

`into[:] = values` does the same, but numba compiles for it what tells of shapes that do not match: seconds of
every first use, for an error that cannot happen here.
"""

from __future__ import annotations

from numba import njit


@njit(cache=True)
def copy(values, into):  # type: ignore[no-untyped-def]
    for u in range(len(values)):
        into[u] = values[u]
