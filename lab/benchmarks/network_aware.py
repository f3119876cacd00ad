"""Network-aware placement: what measuring sites brings, Vivaldi updates per second, search in the cost space,
and queries placed per second.

    python -m lab.benchmarks network_aware
    python -m lab.benchmarks.network_aware MATRIX     also on round-trip times of your own, .csv, .tsv or .npy

The excess over the optimum is that of 120 queries of four producers, five draws. Speeds grow from the paper's
1550 nodes to 100,000, which lie on a plane behind access links, so that latencies need no matrix. Ratios are
the stable figures on a noisy machine: the compiled Vivaldi to the per-node client, the k-d tree to trying all
nodes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.experiments.sbon.star_queries import StarQueries
from lab.networks.transit_stub import transit_stub
from mooring.algorithms.relaxation.mapping import MappingParams, OpenSites
from mooring.arrays import Floats, Ints
from mooring.cli.output.result_table import ResultTable
from mooring.model.network.cost_space import CostSpace
from mooring.model.network.embedding import draw_neighbours, embed, refine, start_embedding
from mooring.model.network.round_trips import read_matrix
from mooring.model.network.shipped import planetlab
from mooring.model.network.vivaldi import VivaldiClient, VivaldiParams

SIZES = (1550, 10_000, 100_000)
QUERIES = 1000
PROBES = (0, 10, 20, 50)
PARAMS = VivaldiParams()


class Plane(OpenSites):
    """Latencies from places: distance plus both access links."""

    def __init__(self, nodes: int, rng: np.random.Generator) -> None:
        self._place, self._access = rng.random((nodes, 2)) * 300.0, rng.exponential(20.0, nodes)

    def latency_ms(self, a: Ints, b: Ints) -> Floats:
        apart = np.linalg.norm(self._place[a] - self._place[b], axis=-1) + self._access[a] + self._access[b]
        return np.where(a == b, 0.0, apart)

    def measured_ms(self, sites: Ints, others: Ints) -> Floats:
        return self.latency_ms(sites[:, None], others[None, :])


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The best of a few runs: noise only ever adds."""
    best = float("inf")
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return best


def client_updates_per_s() -> float:
    rng = np.random.default_rng(0)
    one, two = VivaldiClient(rng), VivaldiClient(rng)

    def updates() -> None:
        for _ in range(2000):
            one.observe(1, 30.0, two.coordinate)

    return 2000 / seconds(updates)


def grow(nodes: int) -> dict[str, float]:
    rng = np.random.default_rng(nodes)
    plane = Plane(nodes, rng)
    peers = draw_neighbours(nodes, rng)
    seen = plane.latency_ms(np.arange(nodes)[:, None], peers)
    start = start_embedding(nodes, rng, PARAMS)
    rounds = max(20, 400_000 // nodes)
    per_s = nodes * rounds / seconds(lambda: refine(start, peers, seen, rng, PARAMS, rounds))
    embedding = refine(start, peers, seen, rng, PARAMS, 400)
    index_s = seconds(lambda: CostSpace(embedding))
    space = CostSpace(embedding)
    points = embedding.position_ms[rng.integers(nodes, size=200)]
    tree_s = seconds(lambda: [space.nearest(point, 10) for point in points]) / len(points)
    everyone = np.arange(nodes)
    all_s = seconds(lambda: [np.argsort(space.distance_ms(p, everyone))[:10] for p in points[:20]]) / 20
    queries = StarQueries.draw(QUERIES, min(nodes, 1550), rng)
    place = {
        name: seconds(partial(queries.relaxation, seen, space, rng, params, plane), 2)
        for name, params in {
            "nearest": MappingParams(),
            "estimated": MappingParams("estimated"),
            "25 probes": MappingParams("estimated", probes=25),
        }.items()
    }
    return {
        "nodes": nodes,
        "vivaldi_updates_per_s": per_s,
        "index_s": index_s,
        "nearest_us": tree_s * 1e6,
        "nearest_by_trying_all_us": all_s * 1e6,
        **place,
    }


def papers_size() -> dict[str, float]:
    """Everything at once on the paper's network, once warm: coordinates, springs, mapping."""
    rng = np.random.default_rng(0)
    generate_s = seconds(lambda: transit_stub(np.random.default_rng(0)), 1)
    latency_ms = transit_stub(np.random.default_rng(0))[1].latency_ms
    queries = StarQueries.draw(QUERIES, len(latency_ms), rng)

    def everything(params: MappingParams) -> None:
        queries.relaxation(latency_ms, CostSpace(embed(latency_ms, rng)), rng, params)

    everything(MappingParams("estimated", probes=25))  # warm
    return {
        "generate the network and its routes": generate_s,
        "coordinates and 1000 queries, nearest site": seconds(lambda: everything(MappingParams()), 2),
        "coordinates and 1000 queries, 25 probes": seconds(
            lambda: everything(MappingParams("estimated", probes=25)), 2
        ),
    }


def excess_by_probes(name: str, latency_ms: Floats) -> list[dict[str, str]]:
    """By what part network usage exceeds the optimum's, mean and standard error over five draws."""
    rows: list[dict[str, str]] = []
    for ranking in ("nearest", "estimated"):
        excess = {
            probes: [_excess(latency_ms, MappingParams(ranking, probes=probes), seed) for seed in range(5)]
            for probes in PROBES
        }
        rows.append(
            {"network": name, "nodes": str(len(latency_ms)), "ranking": ranking}
            | {
                "none" if probes == 0 else str(probes): f"{np.mean(own):.2%} ±{np.std(own) / 2:.2%}"
                for probes, own in excess.items()
            }
        )
    return rows


def _excess(latency_ms: Floats, params: MappingParams, seed: int) -> float:
    rng = np.random.default_rng(seed)
    queries = StarQueries.draw(120, len(latency_ms), rng)
    best = queries.usage(latency_ms, queries.optimal(latency_ms)).sum()
    sites, _ = queries.relaxation(latency_ms, CostSpace(embed(latency_ms, rng)), rng, params)
    return float(queries.usage(latency_ms, sites).sum() / best - 1.0)


def networks(words: Sequence[str]) -> dict[str, Floats]:
    """Those to measure the excess on: PlanetLab's, a generated one, and what the words name."""
    return {
        "planetlab": planetlab().one_way_ms(),
        "transit-stub": transit_stub(np.random.default_rng(0))[1].latency_ms,
        **{Path(word).stem: read_matrix(Path(word)).one_way_ms() for word in words},
    }


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    yield ResultTable.of(
        "Network usage above the optimum, by sites measured per operator",
        [row for name, latency_ms in networks(words).items() for row in excess_by_probes(name, latency_ms)],
    )
    whole = papers_size()
    yield ResultTable.of(
        "The paper's network of 1550 nodes", [{"work": name, "s": value} for name, value in whole.items()]
    )
    rows = [grow(nodes) for nodes in SIZES]
    searching = ("nodes", "vivaldi_updates_per_s", "index_s", "nearest_us", "nearest_by_trying_all_us")
    yield ResultTable.of("Growth", [{name: row[name] for name in searching} for row in rows])
    yield ResultTable.of(
        "1000 queries placed, s",
        [{name: value for name, value in row.items() if name not in searching[1:]} for row in rows],
    )
    ratios = {
        "compiled Vivaldi updates to a client's": rows[0]["vivaldi_updates_per_s"] / client_updates_per_s(),
        f"k-d tree to trying all at {SIZES[-1]:,} nodes": rows[-1]["nearest_by_trying_all_us"]
        / rows[-1]["nearest_us"],
    }
    yield ResultTable.of(
        "Ratios", [{"speed_of": name, "times": round(value)} for name, value in ratios.items()]
    )


NETWORK_AWARE = Measurement(
    "network_aware",
    "Network coordinates, search in the cost space and placing queries: speed, and what probes bring",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(NETWORK_AWARE, sys.argv[1:])
