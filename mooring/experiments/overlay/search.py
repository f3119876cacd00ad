"""What the search costs: plans explored and messages against k, and messages against the size of the network.

The paper has no figure of it; section 3.3.2 says that elimination keeps the optimisation traffic small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import TYPE_CHECKING

import numpy as np

from mooring.experiments.experiment import Experiment
from mooring.experiments.overlay.shared_chains import HEIGHT, SharedChains, draw_chains, draw_network
from mooring.experiments.summary import Shown, Summary
from mooring.experiments.trials import Row, run_trials
from mooring.placement.overlay.ahead import KnownLatencies
from mooring.placement.overlay.enumeration import enumerate_plans
from mooring.placement.overlay.partial_plans import Candidates
from mooring.placement.overlay.shared_operator import QueryEnd, SharedOperator, Source
from mooring.policies.overlay import Overlay
from mooring.progress import Report
from mooring.protocols.overlay.messages import RegisterQuery
from mooring.simulator.harness.overlay_run import OverlayRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = (0, 1, 2, 3, 5)
CANDIDATES = 7
TIGHT = 0.6
"""Of the workload's limits."""
SIZES = (50, 100, 200, 400, 1000)
EXPLORED_CHAINS, REGISTERED_CHAINS = 40, 12


@dataclass(frozen=True)
class SearchTrial:
    part: str
    """`plans` against k, or `messages` against the size."""
    candidates: str
    """`any` sites, or those `near` the chain."""
    limits: str
    k: int
    sites: int
    seed: int


def shared_chain(chains: SharedChains, c: int, times: float, with_ends: bool) -> list[SharedOperator]:
    """The operators of one chain, each with its own query's end where they are wanted."""
    found = []
    for i in range(HEIGHT):
        end = QueryEnd(HEIGHT * c + i, int(chains.client[c, i]), float(chains.limit_ms[c, i]) * times)
        found.append(
            SharedOperator(
                HEIGHT * c + i,
                publishers=(HEIGHT * c + i - 1,) if i else (),
                sources=() if i else (Source(int(chains.source[c])),),
                ends=(end,) if with_ends else (),
                output_rate=float(chains.rate[c, i]),
                cores=float(chains.cores[c, i]),
            )
        )
    return found


def explore_plans(trial: SearchTrial) -> list[Row]:
    """Partial plans made for whole chains, with nothing but elimination to keep them few."""
    rng = np.random.default_rng([trial.seed, trial.sites])
    chains = draw_chains(draw_network(trial.sites, rng), 0.6, rng)
    times = TIGHT if trial.limits == "tight" else 1.0
    explored = []
    for c in range(EXPLORED_CHAINS):
        operators = shared_chain(chains, c, times, with_ends=True)
        chosen = {own.operator: _candidates(trial, chains, c, rng) for own in operators}
        done = enumerate_plans(operators, chosen, KnownLatencies(chains.latency_ms), k=trial.k)
        explored.append(done.explored)
    row: Row = {"part": trial.part, "candidates": trial.candidates, "limits": trial.limits, "k": trial.k}
    row |= {"sites": trial.sites}
    return [row | {"explored": float(np.mean(explored)), **_no_messages(), "seed": trial.seed}]


def _candidates(trial: SearchTrial, chains: SharedChains, c: int, rng: np.random.Generator) -> Candidates:
    """Any sites, as a directory knows them that is asked for CPU alone; or those with the least detour."""
    if trial.candidates == "any":
        sites = rng.permutation(trial.sites)[:CANDIDATES]
    else:
        detour = chains.latency_ms[chains.source[c]] + chains.latency_ms[:, chains.client[c]].mean(axis=1)
        sites = np.argsort(detour, kind="stable")[:CANDIDATES]
    return Candidates(sites, np.full(CANDIDATES, np.inf), np.full(CANDIDATES, np.inf))


def _no_messages() -> dict[str, float]:
    names = ("exchange", "directory", "monitor", "hops", "most_hops", "log2_sites", "virtual_ms")
    return dict.fromkeys(names, 0.0)


def count_messages(trial: SearchTrial) -> list[Row]:
    """Queries over chains of one to five operators, registered one after the other."""
    rng = np.random.default_rng([trial.seed, trial.sites])
    latency_ms = draw_network(trial.sites, rng)
    chains = draw_chains(latency_ms, 0.6, rng)
    policy = Overlay(k=trial.k, candidates=CANDIDATES)
    usable = np.full(trial.sites, policy.threshold * chains.capacity_cores)
    run = OverlayRun(latency_ms, usable, np.full(trial.sites, np.inf), policy.params(0.0), rng)
    before, taken, explored = run.counts(), [], []
    for i in range(HEIGHT):
        for c in range(REGISTERED_CHAINS):
            operators = tuple(shared_chain(chains, c, 1.0, with_ends=False)[: i + 1])
            number = HEIGHT * c + i
            request = RegisterQuery(number, float(chains.limit_ms[c, i]), 0.0, (number,), operators)
            outcome, ms = run.register(int(chains.client[c, i]), request)
            taken.append(ms)
            explored.append(getattr(outcome, "explored", 0))
    after, queries = run.counts(), HEIGHT * REGISTERED_CHAINS
    return [
        {
            "part": trial.part,
            "candidates": trial.candidates,
            "limits": trial.limits,
            "k": trial.k,
            "sites": trial.sites,
            "explored": float(np.mean(explored)),
            "exchange": (after.exchange_messages - before.exchange_messages) / queries,
            "directory": (after.directory_messages - before.directory_messages) / queries,
            "monitor": (after.monitor_messages - before.monitor_messages) / queries,
            "hops": float(np.mean(after.search_hops)),
            "most_hops": max(after.search_hops),
            "log2_sites": ceil(log2(trial.sites)),
            "virtual_ms": float(np.mean(taken)),
            "seed": trial.seed,
        }
    ]


def one_trial(trial: SearchTrial) -> list[Row]:
    return explore_plans(trial) if trial.part == "plans" else count_messages(trial)


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    sizes, steps = (SIZES[:1], (0, 3)) if quick else (SIZES, STEPS)
    cases = (("any", "loose"), ("any", "tight"), ("near", "loose"), ("near", "tight"))
    trials = [SearchTrial("plans", *case, k, 100, seed) for case in cases for k in steps]
    trials += [SearchTrial("messages", "near", "loose", 3, sites, seed) for sites in sizes]
    trials += [SearchTrial("messages", "near", "loose", k, 100, seed) for k in steps if not quick and k != 3]
    return run_trials(one_trial, trials, report)


def explored_at(rows: Sequence[Row], candidates: str, limits: str, k: int) -> float:
    return next(
        float(row["explored"])
        for row in rows
        if row["part"] == "plans" and (row["candidates"], row["limits"], row["k"]) == (candidates, limits, k)
    )


def conclude(rows: Sequence[Row]) -> list[str]:
    found = []
    for candidates in ("any", "near"):
        for limits in ("loose", "tight"):
            least, most = (explored_at(rows, candidates, limits, k) for k in (3, 0))
            found.append(
                f"Candidates {candidates}, limits {limits}: three steps ahead leave {least / most:.2f} of "
                "the plans to explore."
            )
    return found


def draw(rows: Sequence[Row]) -> Figure:
    from matplotlib.figure import Figure

    from mooring.experiments.style import tidy

    figure = Figure(figsize=(8, 4), layout="constrained")
    plans, messages = figure.subplots(1, 2)
    for limits in ("loose", "tight"):
        own = [
            row for row in rows if (row["part"], row["candidates"], row["limits"]) == ("plans", "any", limits)
        ]
        plans.plot([int(r["k"]) for r in own], [float(r["explored"]) for r in own], marker="o", label=limits)
    plans.set(xlabel="k", ylabel="partial plans per chain", yscale="log")
    plans.legend(frameon=False)
    own = [row for row in rows if row["part"] == "messages" and row["k"] == 3]
    own = sorted({int(row["sites"]): row for row in own}.values(), key=lambda row: int(row["sites"]))
    for kind in ("exchange", "directory"):
        messages.plot([int(r["sites"]) for r in own], [float(r[kind]) for r in own], marker="o", label=kind)
    messages.set(xlabel="sites", ylabel="messages per query", xscale="log")
    messages.legend(frameon=False)
    for axes in (plans, messages):
        tidy(axes)
    return figure


OVERLAY_SEARCH = Experiment(
    name="overlay_search",
    title="Plans and messages of the k-ahead search",
    source="Adaptive overlays for shared stream processing environments, section 3.3",
    columns={
        "part": "plans: whole chains, elimination alone; messages: queries registered by the protocol",
        "candidates": "any: sites asked for CPU alone, as in the paper; near: those with the least detour",
        "limits": "loose: those of the workload; tight: .6 of them",
        "k": "steps ahead; 0 looks at the latency so far",
        "sites": "sites of the network: PlanetLab nodes up to 490, transit-stub beyond",
        "explored": "partial plans made, mean over the chains or queries",
        "exchange": "messages per query to find and apply its plan",
        "directory": "messages per query of the resource directory, adverts included",
        "monitor": "messages per query of the network monitor",
        "hops": "longest way of a search, mean",
        "most_hops": "longest way of any search",
        "log2_sites": "the logarithm of the number of sites",
        "virtual_ms": "from the request to the outcome in virtual time, mean",
        "seed": "of the draw",
    },
    summaries=(
        Summary(
            by=("candidates", "limits", "k"),
            shown=(Shown("explored", "plans explored", "mean alone"),),
            title="partial plans of a chain",
            where=lambda row: row["part"] == "plans",
            counted="",
        ),
        Summary(
            by=("sites", "k"),
            shown=tuple(
                Shown(name, "", "mean alone")
                for name in ("exchange", "directory", "monitor", "hops", "most_hops", "log2_sites")
            ),
            title="messages per query",
            where=lambda row: row["part"] == "messages",
            counted="",
        ),
    ),
    setting="Chains of five operators, seven candidate sites each: 40 chains explored, 60 queries placed.",
    run=run,
    draw=draw,
    conclude=conclude,
)
