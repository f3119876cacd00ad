"""Scenarios in which adapting is worth something, or is not: ten that are told, and as many drawn as wanted.

Each is a problem with its changes, and where its fragments begin. Those that are drawn differ in everything
that those that are told fix: a decider that does well in ten is tried on others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.planning import plan

FLOOD = Path(__file__).parents[3] / "examples" / "flood.yaml"
Fields = dict[str, Any]


@dataclass(frozen=True)
class Scenario:
    problem: Problem
    start: Placement
    seconds: float


def _made(
    capacity: Mapping[str, float],
    streams: Mapping[str, tuple[str, float]],
    operators: Mapping[str, tuple[str, float, float]],
    queries: Mapping[str, tuple[str, str, float | None]],
    changes: list[Fields],
    *,
    latency_ms: float = 20.0,
    start: Mapping[str, str] | None = None,
    more: Mapping[str, Fields] | None = None,
    links: Mapping[tuple[str, str], float] | None = None,
) -> Scenario:
    """streams: site, rate. operators: input, cost in us, selectivity. queries: operator, site, limit."""
    names = list(capacity)
    apart = {
        a: {b: (links or {}).get((a, b), latency_ms) for b in names[k + 1 :]} for k, a in enumerate(names)
    }
    own = more or {}
    made: Fields = {
        "sites": {name: {"capacity": cores} for name, cores in capacity.items()},
        "latency_ms": {a: others for a, others in apart.items() if others},
        "streams": {
            name: {"site": site, "rate": rate, "bytes": 100, **own.get(name, {})}
            for name, (site, rate) in streams.items()
        },
        "operators": {
            name: {"inputs": [source], "cost_us": cost, "selectivity": share, **own.get(name, {})}
            for name, (source, cost, share) in operators.items()
        },
        "queries": {
            name: {"reads": reads, "site": site, **({} if limit is None else {"max_latency_ms": limit})}
            for name, (reads, site, limit) in queries.items()
        },
        "changes": changes,
    }
    problem = Problem.from_dict(made)
    where = plan(problem, "rod").placement if start is None else Placement.from_dict(problem, start)
    return Scenario(problem, where, 600.0)


def flood() -> Scenario:
    problem = Problem.load(FLOOD)
    return Scenario(problem, plan(problem, "rod").placement, 600.0)


_CHAINS: dict[str, tuple[str, float, float]] = {
    f"{stream}{k}": (f"{stream}{k - 1}" if k else stream, cost, 0.9 if k else 1.0)
    for stream, costs in (("x", (1500, 2500, 1200)), ("y", (2200, 1800)), ("z", (1000, 2600, 900)))
    for k, cost in enumerate(costs)
}
_ENDS: dict[str, tuple[str, str, float | None]] = {
    "of_x": ("x2", "a", 250.0),
    "of_y": ("y1", "b", 250.0),
    "of_z": ("z2", "c", 250.0),
}
_STREAMS = {"x": ("a", 60.0), "y": ("b", 60.0), "z": ("c", 60.0)}
_BY_STREAM = {
    **dict.fromkeys(("x0", "x1", "x2"), "a"),
    "y0": "b",
    "y1": "b",
    **dict.fromkeys(("z0", "z1", "z2"), "c"),
}
"""Each chain where its stream is."""


def bursts() -> Scenario:
    """Too short for a move to be worth it."""
    streams = list(_STREAMS)
    changes: list[Fields] = [
        {"at_s": 40 + 45 * k, "stream": streams[k % 3], "rates": [[0, 170], [12, 60]]} for k in range(11)
    ]
    return _made(dict.fromkeys("abc", 1.0), _STREAMS, _CHAINS, _ENDS, changes)


def rising() -> Scenario:
    """One stream after the other, until all sites together are used by three quarters."""
    changes: list[Fields] = [
        {"at_s": 60, "stream": "x", "rate": 240, "over_s": 60},
        {"at_s": 220, "stream": "y", "rate": 230, "over_s": 60},
        {"at_s": 380, "stream": "z", "rate": 210, "over_s": 60},
    ]
    return _made(dict.fromkeys("abcd", 1.0), _STREAMS, _CHAINS, _ENDS, changes, start=_BY_STREAM)


def shrinking() -> Scenario:
    changes: list[Fields] = [
        {"at_s": 60, "site": "a", "capacity": 0.6},
        {"at_s": 200, "site": "b", "capacity": 0.5},
        {"at_s": 340, "site": "a", "capacity": 1.2},
        {"at_s": 420, "site": "c", "capacity": 0.4},
    ]
    streams = {name: (site, 165.0) for name, (site, _) in _STREAMS.items()}
    return _made(dict.fromkeys("abcd", 1.0), streams, _CHAINS, _ENDS, changes)


def packed() -> Scenario:
    """Large fragments on well used sites: relief takes two moves, of which the first makes the room."""
    streams = {"x": ("a", 40.0), "y": ("b", 40.0), "z": ("c", 40.0)}
    operators = {
        "big": ("x", 6000.0, 0.2),
        "also": ("x", 6500.0, 0.2),
        "wide": ("y", 9000.0, 0.2),
        "thin": ("y", 4500.0, 0.2),
        "long": ("z", 8000.0, 0.2),
        "last": ("z", 5000.0, 0.2),
    }
    queries: dict[str, tuple[str, str, float | None]] = {
        f"of_{name}": (name, "a", None) for name in operators
    }
    start = {"big": "a", "also": "a", "wide": "b", "thin": "b", "long": "c", "last": "c"}
    changes: list[Fields] = [{"at_s": 60, "stream": "x", "rate": 86, "over_s": 20}]
    return _made({"a": 1.0, "b": 1.0, "c": 0.85}, streams, operators, queries, changes, start=start)


def slow_links() -> Scenario:
    """Limits break because links slow down; nothing is too full."""
    links = {("a", "b"): 20.0, ("a", "c"): 60.0, ("a", "d"): 70.0}
    changes: list[Fields] = [
        {"at_s": 80, "link": ["a", "b"], "latency_ms": 260},
        {"at_s": 300, "link": ["b", "c"], "latency_ms": 220},
        {"at_s": 420, "link": ["c", "d"], "latency_ms": 240},
    ]
    ends: dict[str, tuple[str, str, float | None]] = {
        "of_x": ("x2", "a", 120.0), "of_y": ("y1", "b", 120.0), "of_z": ("z2", "c", 150.0)
    }  # fmt: skip
    start = {"x0": "a", "x1": "b", "x2": "b", "y0": "b", "y1": "c", "z0": "c", "z1": "d", "z2": "c"}
    return _made(
        dict.fromkeys("abcd", 1.0),
        _STREAMS,
        _CHAINS,
        ends,
        changes,
        start=start,
        links=links,
    )


def joins_leaves() -> Scenario:
    operators = {**_CHAINS, "w0": ("x", 3500.0, 0.3), "w1": ("w0", 3000.0, 1.0), "v0": ("y", 3800.0, 0.2)}
    ends: dict[str, tuple[str, str, float | None]] = {
        **_ENDS,
        "of_w": ("w1", "a", 250.0),
        "of_v": ("v0", "b", 250.0),
    }
    streams = {name: (site, 120.0) for name, (site, _) in _STREAMS.items()}
    changes: list[Fields] = [
        {"at_s": 80, "query": "of_w", "joins": True},
        {"at_s": 200, "query": "of_v", "joins": True},
        {"at_s": 330, "query": "of_x", "leaves": True},
        {"at_s": 440, "query": "of_x", "joins": True},
    ]
    start = {**_BY_STREAM, "w0": "a", "w1": "a", "v0": "b"}
    return _made(dict.fromkeys("abcd", 1.0), streams, operators, ends, changes, start=start)


def big_rows() -> Scenario:
    """A projection of 100 kB to 200 B on the wrong side of a link: it saves bytes alone."""
    return _made(
        {"a": 1.0, "b": 1.0},
        {"x": ("a", 50.0)},
        {"slim": ("x", 1500.0, 1.0)},
        {"top": ("slim", "b", 400.0)},
        [],
        latency_ms=40.0,
        start={"slim": "b"},
        more={"x": {"bytes": 100_000}, "slim": {"bytes": 200}},
    )


def lost_ends() -> Scenario:
    """The site where queries end is lost for good, and then a stream rises."""
    ends: dict[str, tuple[str, str, float | None]] = {
        "of_x": ("x2", "d", 250.0),
        "of_y": ("y1", "d", 250.0),
        "of_z": ("z2", "c", 250.0),
    }
    changes: list[Fields] = [
        {"at_s": 60, "site": "d", "lost": True},
        {"at_s": 120, "stream": "x", "rate": 200, "over_s": 30},
    ]
    sites = {**dict.fromkeys("abc", 1.0), "d": 0.5}
    return _made(sites, _STREAMS, _CHAINS, ends, changes, start=_BY_STREAM)


def returned() -> Scenario:
    """A site is lost and comes back empty, and the rates rise meanwhile."""
    changes: list[Fields] = [
        {"at_s": 60, "site": "d", "lost": True, "for_s": 120},
        {"at_s": 150, "stream": "z", "rate": 235, "over_s": 60},
        {"at_s": 260, "stream": "x", "rate": 220, "over_s": 60},
    ]
    streams = {name: (site, 80.0) for name, (site, _) in _STREAMS.items()}
    return _made(dict.fromkeys("abcd", 1.0), streams, _CHAINS, _ENDS, changes, start=_BY_STREAM)


SCENARIOS: Mapping[str, Callable[[], Scenario]] = {
    each.__name__: each
    for each in (
        flood,
        bursts,
        rising,
        shrinking,
        packed,
        slow_links,
        joins_leaves,
        big_rows,
        lost_ends,
        returned,
    )
}


def drawn(seed: int) -> Scenario:
    """Three to six sites, two to four streams with chains and branches, and changes of all kinds."""
    rng = np.random.default_rng([38, seed])
    sites = [f"s{k}" for k in range(int(rng.integers(3, 7)))]
    capacity = {site: float(rng.choice([0.6, 1.0, 1.5])) for site in sites}
    streams = {
        f"x{k}": (str(rng.choice(sites)), float(rng.integers(30, 120)))
        for k in range(int(rng.integers(2, 5)))
    }
    operators: dict[str, tuple[str, float, float]] = {}
    queries: dict[str, tuple[str, str, float | None]] = {}
    more: dict[str, Fields] = {}
    for stream in streams:
        own: list[str] = []
        for k in range(int(rng.integers(2, 6))):
            name = f"{stream}_{k}"
            source = stream if not own else str(rng.choice(own))
            operators[name] = (
                source,
                float(rng.uniform(500, 4000)),
                float(rng.choice([1.0, 1.0, 0.7, 0.3])),
            )
            if rng.random() < 0.3:
                more[name] = {"state_bytes": float(rng.choice([1e6, 2e7]))}
            own.append(name)
        read = {operators[name][0] for name in own}
        for name in own:
            if name not in read:
                limit = float(rng.uniform(150, 400)) if rng.random() < 0.6 else None
                queries[f"q_{name}"] = (name, str(rng.choice(sites)), limit)
    links = {(a, b): float(rng.choice([5, 20, 40, 80])) for k, a in enumerate(sites) for b in sites[k + 1 :]}
    raw = sum(
        streams[name.partition("_")[0]][1] * operators[name][1] / 1e6 * _share(operators, name)
        for name in operators
    )
    begins = float(rng.uniform(0.35, 0.5))
    factor = begins * sum(capacity.values()) / raw
    streams = {name: (site, rate * min(factor, 3.0)) for name, (site, rate) in streams.items()}
    changes = _drawn_changes(rng, sites, capacity, streams)
    return _made(capacity, streams, operators, queries, changes, links=links, more=more)


def _share(operators: Mapping[str, tuple[str, float, float]], name: str) -> float:
    """What of a stream reaches an operator."""
    source = operators[name][0]
    return 1.0 if source not in operators else operators[source][2] * _share(operators, source)


def _drawn_changes(
    rng: np.random.Generator,
    sites: list[str],
    capacity: Mapping[str, float],
    streams: Mapping[str, tuple[str, float]],
) -> list[Fields]:
    changes: list[Fields] = []
    for stream, (_, rate) in streams.items():
        if rng.random() < 0.75:
            rises = {"rate": rate * float(rng.uniform(1.4, 2.2)), "over_s": float(rng.choice([0, 20, 90]))}
            changes.append({"at_s": float(rng.integers(40, 400)), "stream": stream, **rises})
    shrunk = str(rng.choice(sites))
    if rng.random() < 0.5:
        cores = capacity[shrunk] * float(rng.uniform(0.5, 0.8))
        changes.append({"at_s": float(rng.integers(60, 400)), "site": shrunk, "capacity": cores})
    if rng.random() < 0.35:
        lost = str(rng.choice([site for site in sites if site != shrunk]))
        changes.append({"at_s": float(rng.integers(60, 300)), "site": lost, "lost": True, "for_s": 100.0})
    if rng.random() < 0.4:
        a, b = (str(name) for name in rng.choice(sites, 2, replace=False))
        changes.append({"at_s": float(rng.integers(60, 400)), "link": [a, b], "latency_ms": 200.0})
    return changes
