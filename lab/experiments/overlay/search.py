"""What the search costs: plans explored and messages against k, and messages against the size of the network.

The paper has no figure of it; section 3.3.2 says that elimination keeps the optimisation traffic small.

How much there is to eliminate depends on the candidates. Those that the paper's directory knows, asked for
CPU alone, are anywhere; most plans over them are too slow. Those near a chain's streams and ends are
seldom too slow, and what is feasible has to be kept. So the plans that belong to a feasible plan are counted
too: nothing that loses none could explore fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import panels
from lab.experiments.overlay.shared_chains import HEIGHT, SharedChains, draw_chains
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from lab.oracles.plan_enumeration import enumerate_plans
from mooring.algorithms.overlay.policy import Overlay
from mooring.algorithms.overlay.protocol.messages import RegisterQuery
from mooring.algorithms.overlay.search.ahead import KnownLatencies
from mooring.algorithms.overlay.search.partial_plans import Candidates, PlanTable
from mooring.algorithms.overlay.search.shared_operator import QueryEnd, SharedOperator, Source
from mooring.algorithms.overlay.virtual_run import OverlayRun
from mooring.figure_style import tidy
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = (0, 1, 2, 3, 5)
CANDIDATES = 7
TIGHT = 0.6
"""Of the workload's limits."""
SIZES = (50, 100, 200, 400, 1000)
EXPLORED_CHAINS, REGISTERED_CHAINS = 40, 12
DRAWS = 2


@dataclass(frozen=True)
class SearchTrial:
    part: str
    """`plans` against k, or `messages` against the size."""
    candidates: str
    """`any` sites, or those `near` the chain."""
    limits: str
    steps: tuple[int, ...]
    """Values of k."""
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
    """Partial plans made for whole chains, with nothing but elimination to keep them few; a row per k."""
    chains = draw_chains(trial.sites, 0.6, trial.seed)
    rng = np.random.default_rng([trial.seed, trial.sites, 1])
    times = TIGHT if trial.limits == "tight" else 1.0
    known, needed = KnownLatencies(chains.latency_ms), 0.0
    explored = dict.fromkeys(trial.steps, 0.0)
    for c in range(EXPLORED_CHAINS):
        operators = shared_chain(chains, c, times, with_ends=True)
        chosen = {own.operator: _candidates(trial, chains, c, rng) for own in operators}
        for k in trial.steps:
            explored[k] += enumerate_plans(operators, chosen, known, k=k).explored / EXPLORED_CHAINS
        feasible = enumerate_plans(operators, chosen, known, k=HEIGHT).tables[operators[-1].operator]
        needed += _parts(feasible) / EXPLORED_CHAINS
    return [
        {**_of(trial, k), "explored": plans, "needed": needed, **dict.fromkeys(COUNTED, 0.0)}
        for k, plans in explored.items()
    ]


def _of(trial: SearchTrial, k: int) -> Row:
    return {
        "part": trial.part,
        "candidates": trial.candidates,
        "limits": trial.limits,
        "k": k,
        "sites": trial.sites,
        "seed": trial.seed,
    }


def _parts(feasible: PlanTable) -> int:
    """The partial plans that some feasible plan is an expansion of, itself among them."""
    lengths = range(1, feasible.sites.shape[1] + 1)
    return sum(len(np.unique(feasible.sites[:, :length], axis=0)) for length in lengths)


def _candidates(trial: SearchTrial, chains: SharedChains, c: int, rng: np.random.Generator) -> Candidates:
    """Any sites, as a directory knows them that is asked for CPU alone; or those with the least detour."""
    if trial.candidates == "any":
        sites = rng.permutation(trial.sites)[:CANDIDATES]
    else:
        detour = chains.latency_ms[chains.source[c]] + chains.latency_ms[:, chains.client[c]].mean(axis=1)
        sites = np.argsort(detour, kind="stable")[:CANDIDATES]
    return Candidates(sites, np.full(CANDIDATES, np.inf), np.full(CANDIDATES, np.inf))


COUNTED = ("exchange", "within", "search", "upkeep", "hops", "most_hops", "log2_sites", "virtual_ms", "ways")


def count_messages(trial: SearchTrial) -> list[Row]:
    """Queries over chains of one to five operators, registered one after the other; sites of all networks
    have the same capacity."""
    chains = draw_chains(trial.sites, 0.6, trial.seed, of_sites=SIZES[0])
    rng = np.random.default_rng([trial.seed, trial.sites, 1])
    (k,) = trial.steps
    policy = Overlay(k=k, candidates=CANDIDATES)
    usable = np.full(trial.sites, policy.threshold * chains.capacity_cores)
    run = OverlayRun(chains.latency_ms, usable, np.full(trial.sites, np.inf), policy.params(0.0), rng)
    before, begun_ms, taken, explored = run.counts(), run.loop.now_ms, [], []
    for i in range(HEIGHT):
        for c in range(REGISTERED_CHAINS):
            operators = tuple(shared_chain(chains, c, 1.0, with_ends=False)[: i + 1])
            number = HEIGHT * c + i
            request = RegisterQuery(number, float(chains.limit_ms[c, i]), 0.0, (number,), operators)
            outcome, ms = run.register(int(chains.client[c, i]), request)
            taken.append(ms)
            explored.append(getattr(outcome, "explored", 0))
    after, queries = run.counts(), HEIGHT * REGISTERED_CHAINS
    site_minutes = (run.loop.now_ms - begun_ms) / 60e3 * trial.sites
    counted = (
        (after.exchange_messages - before.exchange_messages) / queries,
        (after.within_messages - before.within_messages) / queries,
        (after.search_messages - before.search_messages) / queries,
        (after.upkeep_messages - before.upkeep_messages) / site_minutes,
        float(np.mean(after.search_hops)),
        max(after.search_hops),
        ceil(log2(trial.sites)),
        float(np.mean(taken)),
        float(np.mean(taken)) / float(chains.latency_ms[~np.eye(trial.sites, dtype=bool)].mean()),
    )
    found = {"explored": float(np.mean(explored)), "needed": 0.0}
    return [{**_of(trial, k), **found, **dict(zip(COUNTED, counted, strict=True))}]


def one_trial(trial: SearchTrial) -> list[Row]:
    return explore_plans(trial) if trial.part == "plans" else count_messages(trial)


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    sizes, steps, draws = (SIZES[:1], (0, 3), 1) if quick else (SIZES, STEPS, DRAWS)
    cases = (("any", "loose"), ("any", "tight"), ("near", "loose"), ("near", "tight"))
    trials = []
    for each in range(seed, seed + draws):
        trials += [SearchTrial("plans", *case, steps, 100, each) for case in cases]
        trials += [SearchTrial("messages", "near", "loose", (3,), sites, each) for sites in sizes]
        others = [k for k in steps if not quick and k != 3]
        trials += [SearchTrial("messages", "near", "loose", (k,), 100, each) for k in others]
    return run_trials(one_trial, trials, report)


def _mean(rows: Sequence[Row], column: str, **wanted: str | int) -> float:
    """Over the draws."""
    return fmean(
        float(row[column]) for row in rows if all(row[key] == value for key, value in wanted.items())
    )


def conclude(rows: Sequence[Row]) -> list[str]:
    found = []
    for candidates in ("any", "near"):
        for limits in ("loose", "tight"):
            case = {"part": "plans", "candidates": candidates, "limits": limits}
            three, none = (_mean(rows, "explored", **case, k=k) for k in (3, 0))
            needed = _mean(rows, "needed", **case)
            found.append(
                f"Candidates {candidates}, limits {limits}: three steps ahead leave {three / none:.2f} of "
                f"the plans to explore, {needed / none:.2f} belong to feasible plans; "
                f"{(none - three) / (none - needed):.0%} of what can be eliminated is."
            )
    sizes = sorted({int(row["sites"]) for row in rows if row["part"] == "messages"})
    least, most = (_mean(rows, "exchange", part="messages", k=3, sites=n) for n in (sizes[0], sizes[-1]))
    found.append(
        f"From {sizes[0]} to {sizes[-1]} sites: {least:.0f} to {most:.0f} messages per query between sites "
        f"to find and apply its plan; searches of the directory take at most "
        f"{max(int(row['most_hops']) - int(row['log2_sites']) for row in rows):+d} hops against log2(sites)."
    )
    return found


def draw(rows: Sequence[Row]) -> Figure:
    figure, (plans, messages) = panels(8, 4, 2)
    for limits in ("loose", "tight"):
        steps = sorted({int(row["k"]) for row in rows if row["part"] == "plans"})
        for candidates, line in (("any", "-"), ("near", "--")):
            case = {"part": "plans", "candidates": candidates, "limits": limits}
            explored = [_mean(rows, "explored", **case, k=k) for k in steps]
            plans.plot(steps, explored, line, marker="o", label=f"{candidates}, {limits}")
    plans.set(xlabel="k", ylabel="partial plans per chain", yscale="log")
    plans.legend(frameon=False)
    sizes = sorted({int(row["sites"]) for row in rows if row["part"] == "messages"})
    for kind in ("exchange", "search"):
        counts = [_mean(rows, kind, part="messages", k=3, sites=n) for n in sizes]
        messages.plot(sizes, counts, marker="o", label=kind)
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
        "seed": "of the draw",
        "explored": "partial plans made, mean over the chains or queries",
        "needed": "partial plans that belong to a feasible plan: nothing that loses none explores fewer",
        "exchange": "messages per query between sites to find and apply its plan",
        "within": "the same between operators at one site",
        "search": "messages per query of searches in the directory",
        "upkeep": "messages per site and minute of directory and monitor: adverts, samples, echoes",
        "hops": "longest way of a search, mean",
        "most_hops": "longest way of any search",
        "log2_sites": "the logarithm of the number of sites",
        "virtual_ms": "from the request to the outcome in virtual time, mean",
        "ways": "the same as a multiple of the mean latency between two sites of that network",
    },
    summaries=(
        Summary(
            by=("candidates", "limits", "k"),
            shown=(Shown("explored", "plans explored"), Shown("needed")),
            title="partial plans of a chain",
            where=lambda row: row["part"] == "plans",
            counted="draws",
        ),
        Summary(
            by=("sites", "k"),
            shown=(
                *(Shown(name) for name in ("exchange", "within")),
                *(Shown(name, how="mean alone") for name in ("search", "upkeep", "hops")),
                Shown("most_hops", how="largest"),
                Shown("log2_sites", "log2", how="mean alone"),
                Shown("virtual_ms", "took ms", how="mean alone"),
                Shown("ways", how="mean alone"),
            ),
            title="messages per query",
            where=lambda row: row["part"] == "messages",
            counted="draws",
        ),
    ),
    setting="Chains of five operators, seven candidate sites each: 40 chains explored, 60 queries placed.",
    run=run,
    draw=draw,
    conclude=conclude,
)
