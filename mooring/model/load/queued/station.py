"""Servers with one queue each that several flows share: sites, or links (section 3.6 of the ants paper).

The flows of a server are added up to one stream of messages with one service (equations 4 to 8), whose mean
wait each of them has (equation 9, or its correction). Rates are messages per second, times seconds,
variabilities squared coefficients of variation. A site of c cores is one server of speed c, less its fixed
load: a message is served by all of it, so a lightly loaded site of several cores is faster here than where a
message can use one core only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.model.load.queueing import (
    allen_cunneen_wait_s,
    interpolated_wait_s,
    kraemer_langenbach_belz_wait_s,
)

Form = Literal["paper", "klb", "corrected"]
WAITS: Mapping[Form, Callable[[Floats, Floats, Floats, Floats], Floats]] = {
    "paper": allen_cunneen_wait_s,
    "klb": kraemer_langenbach_belz_wait_s,
    "corrected": interpolated_wait_s,
}
"""Equation 9 as it stands, up to four times too much where arrivals are regular; with the factor of Kraemer
and Langenbach-Belz, up to a third too low there at light load; and corrected at every load, the one for
planning."""


class Flow(NamedTuple):
    """Messages of one kind at one server."""

    rate: float
    service_s: float
    """Mean; all that a message has the server do, through every operator there (equation 3)."""
    service_variability: float = 0.0
    arrival_variability: float = 1.0


class Flows(NamedTuple):
    """Many of them as arrays, and the server of each."""

    server: Ints
    rate: Floats
    service_s: Floats
    service_variability: Floats
    arrival_variability: Floats

    @classmethod
    def of(cls, servers: Sequence[int], flows: Sequence[Flow]) -> Flows:
        columns = np.array(flows, dtype=np.float64).reshape(-1, 4)
        return cls(np.array(servers, dtype=np.int64), *columns.T)


@dataclass(frozen=True)
class Stations:
    """What is left of the flows of each server once they are added up.

    >>> one = Stations.of(Flows.of([0], [Flow(0.5, 1.0, service_variability=1.0)]), 1)
    >>> one.utilisation, one.wait_s("paper")
    (array([0.5]), array([1.]))
    """

    rate: Floats
    service_s: Floats
    service_variability: Floats
    arrival_variability: Floats

    @classmethod
    def of(cls, flows: Flows, count: int) -> Stations:
        def added(values: Floats) -> Floats:
            return np.bincount(flows.server, values, count).astype(np.float64)

        rate = added(flows.rate)
        some = np.where(rate > 0.0, rate, 1.0)
        with np.errstate(invalid="ignore"):  # of a server without speed, whose wait is infinite anyway
            service_s = added(flows.rate * flows.service_s) / some  # equation 4
            square = added(flows.rate * flows.service_s**2 * (1.0 + flows.service_variability)) / some
            known = (service_s > 0.0) & np.isfinite(service_s)
            variability = np.where(
                known, square / np.where(known, service_s**2, 1.0) - 1.0, 0.0
            )  # equation 5
        utilisation = np.minimum(rate * service_s, 1.0)
        spread = some**2 / np.where(rate > 0.0, added(flows.rate**2), 1.0)  # equation 8
        weight = 1.0 / (1.0 + 4.0 * (1.0 - utilisation) ** 2 * (spread - 1.0))  # equation 7
        mixed = added(flows.rate * flows.arrival_variability) / some
        arrivals = np.where(rate > 0.0, 1.0 - weight + weight * mixed, 1.0)  # equation 6
        return cls(rate, service_s, np.maximum(variability, 0.0), arrivals)

    @property
    def utilisation(self) -> Floats:
        return self.rate * self.service_s

    def wait_s(self, form: Form = "corrected") -> Floats:
        """Mean time in the queue; infinite at full utilisation and beyond."""
        dead = ~np.isfinite(self.service_s)
        service_s = np.where(dead, 0.0, self.service_s)
        found = WAITS[form](self.rate, service_s, self.arrival_variability, self.service_variability)
        return np.where(dead, np.inf, found)

    @property
    def departure_variability(self) -> Floats:
        """Of the messages that leave (Marshall's formula, as in Whitt's analyzer): a busy server sets the
        pace, an idle one passes on that of the arrivals.
        """
        busy = np.minimum(self.utilisation, 1.0) ** 2
        return busy * self.service_variability + (1.0 - busy) * self.arrival_variability
