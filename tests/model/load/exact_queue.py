"""Exact mean waits of queues whose arrivals and services pass through phases, as an oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.arrays import Floats

Matrix = NDArray[np.floating[Any]]


def phases(scv: float) -> tuple[Floats, Floats]:
    """Of mean one: Erlang below, hyperexponential with balanced means above an exponential's variability."""
    if scv > 1.0:
        first = 0.5 * (1.0 + np.sqrt((scv - 1.0) / (scv + 1.0)))
        return np.array([first, 1.0 - first]), np.diag([-2.0 * first, 2.0 * first - 2.0])
    count = round(1.0 / scv)
    return np.eye(count)[0], count * (np.eye(count, k=1) - np.eye(count))


def _first_passage(up: Matrix, stay: Matrix, down: Matrix) -> Matrix:
    """Phases in which a busy server is first one tuple further down (logarithmic reduction)."""
    whole = np.eye(len(stay))
    more, less = np.linalg.solve(-stay, up), np.linalg.solve(-stay, down)
    found, so_far = less.copy(), more.copy()
    for _ in range(64):
        back = np.linalg.inv(whole - more @ less - less @ more)
        more, less = back @ more @ more, back @ less @ less
        found += so_far @ less
        so_far = so_far @ more
        if np.abs(so_far).max() < 1e-15:
            break
    return found


def exact_wait(load: float, arrival_scv: float, service_scv: float) -> float:
    """In services (matrix-geometric)."""
    (begin, arriving), (enter, serving) = phases(arrival_scv), phases(service_scv)
    arriving = load * arriving
    one, other = np.eye(len(begin)), np.eye(len(enter))
    arrive, leave = -arriving.sum(axis=1), -serving.sum(axis=1)
    up = np.kron(np.outer(arrive, begin), other)
    stay = np.kron(arriving, other) + np.kron(one, serving)
    down = np.kron(one, np.outer(leave, enter))
    ratio = up @ np.linalg.inv(-(stay + up @ _first_passage(up, stay, down)))
    ahead = np.linalg.inv(np.eye(len(ratio)) - ratio)
    balance = np.block(
        [
            [arriving, np.kron(np.outer(arrive, begin), enter[None, :])],
            [np.kron(one, leave[:, None]), stay + ratio @ down],
        ]
    )
    whole = np.concatenate([np.ones(len(begin)), ahead.sum(axis=1)])
    found = np.linalg.lstsq(np.vstack([balance.T, whole]), np.eye(len(whole) + 1)[-1], rcond=None)[0]
    waiting = found[len(begin) :] @ ahead @ ratio @ ahead.sum(axis=1)
    return float(waiting / load)
