"""Everything that decides a run: with the same scenario and the same machines, the same events happen.

A scenario is data. `as_json` and `from_json` carry it between processes, `describe` tells it to a reader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from lab.faults.faults import Fault, FaultParams, check_fault, draw_faults
from mooring.errors import InputError


class Request(msgspec.Struct, frozen=True):
    """What a site's own user asks of it, and when; lost if the site is down."""

    at_ms: float
    site: int
    request: Any


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    seed: int
    latency_ms: tuple[tuple[float, ...], ...]
    """From a row's site to a column's."""
    end_ms: float
    faults: tuple[Fault, ...] = ()
    requests: tuple[Request, ...] = ()

    def __post_init__(self) -> None:
        sites = len(self.latency_ms)
        square = sites > 0 and all(len(row) == sites for row in self.latency_ms)
        if not square or not all(0 <= x < float("inf") for row in self.latency_ms for x in row):
            raise InputError("must be a square matrix of finite milliseconds", field="latency_ms")
        if not 0 <= self.end_ms < float("inf") or self.seed < 0:
            raise InputError("the seed and the end must not be negative", field="end_ms")
        for fault in self.faults:
            check_fault(fault, sites)
        for request in self.requests:
            if not (0 <= request.site < sites and 0 <= request.at_ms < float("inf")):
                raise InputError(f"{request} names no site or no time", field="requests")

    @property
    def sites(self) -> int:
        return len(self.latency_ms)

    def as_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_json(text: str, requests: Any = Any) -> Scenario:
        """`requests`: the type of what users ask of sites, which the report shows by name."""
        try:
            found = msgspec.json.decode(text, type=Scenario)
            asked = [msgspec.convert(each.request, requests) for each in found.requests]
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise InputError(f"is no scenario: {error}", remedy="take it from a report") from None
        typed = zip(found.requests, asked, strict=True)
        return msgspec.structs.replace(
            found, requests=tuple(msgspec.structs.replace(each, request=request) for each, request in typed)
        )

    def describe(self) -> str:
        lines = [f"seed {self.seed}, {self.sites} sites, {self.end_ms:g} ms"]
        timed = [*self.faults, *self.requests]
        lines += [f"  {item}" for item in sorted(timed, key=lambda item: item.at_ms)]
        return "\n".join(lines)


DrawRequests = Callable[[np.random.Generator, int, float], tuple[Request, ...]]
"""Draws what users ask: from a generator, the number of sites, and the time when faults are over."""


def draw_scenario(
    seed: int,
    draw_requests: DrawRequests,
    settle_ms: Callable[[int, float], float],
    params: FaultParams | None = None,
    sites: tuple[int, int] = (3, 7),
) -> Scenario:
    """A random scenario: sites scattered on a plane, requests, a fault schedule, and time to settle after it.

    `settle_ms` gives that time from the number of sites and the largest latency.
    """
    params = params or FaultParams()
    generator = np.random.default_rng(seed)
    count = int(generator.integers(sites[0], sites[1] + 1))
    place = generator.random((count, 2)) * 60
    distance = np.sqrt(((place[:, None] - place[None]) ** 2).sum(axis=2))
    latency_ms = np.round(distance + 1 - np.eye(count), 1)
    return Scenario(
        seed=seed,
        latency_ms=tuple(map(tuple, latency_ms.tolist())),
        end_ms=params.horizon_ms + settle_ms(count, float(latency_ms.max())),
        faults=draw_faults(generator, count, params),
        requests=draw_requests(generator, count, params.horizon_ms),
    )
