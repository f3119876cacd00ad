"""`mooring compare`: several policies on one problem, side by side."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from math import inf
from typing import Any

from msgspec import UNSET
from rich.markup import escape

from mooring.algorithms.catalogue import POLICIES, make_policy
from mooring.cli.input.clock import Timed
from mooring.cli.input.parsing import Parser, add_problem, names
from mooring.cli.input.problem_source import load_problem
from mooring.cli.output.tables import comparison_table, rejections
from mooring.cli.output.terminal import Terminal
from mooring.errors import InfeasibleError, InputError, UnsupportedError
from mooring.model.evaluation.metrics import Metrics
from mooring.model.problem.fingerprint import fingerprint
from mooring.model.problem.problem import Problem
from mooring.planning import plan
from mooring.progress import Report

DESCRIPTION = "Runs several policies on one problem and prints their metrics, the best highlighted."


def add_options(parser: Parser) -> None:
    add_problem(parser)
    parser.add_argument("--policies", type=names, metavar="A,B,C", help="which ones (default: all)")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    chosen = tuple(POLICIES) if args.policies is None else tuple(dict.fromkeys(args.policies))
    if not chosen:
        raise InputError("found no policy, expected at least one", field="--policies")
    problem = load_problem(args.problem)
    with terminal.progress("comparing policies") as report:
        results = compare_policies(problem, chosen, args.seed, report)
    placed = {name: result["metrics"] for name, result in results.items() if "metrics" in result}
    best_by = _best_by(list(placed.values()))
    # Who leaves out queries has less to survive: it is the best only if nobody places them all.
    whole = {name: own for name, own in placed.items() if not results[name]["rejected"]} or placed
    best = max(whole, key=lambda name: _worth(placed[name], best_by), default=None)
    terminal.document(
        {
            "version": 1,
            "problem": fingerprint(problem),
            "policies": {name: _as_json(result) for name, result in results.items()},
            "best": best,
            "best_by": best_by,
        }
    )
    terminal.print(f"[bold]{escape(str(args.problem))}[/bold]")
    if placed:
        terminal.print(comparison_table(results))
    for name, result in results.items():
        if "reason" in result:
            terminal.print(f"[yellow]{escape(name)}[/yellow] left out: {escape(result['reason'])}")
        elif result["rejected"]:
            said = rejections(result["rejected"], len(problem.queries))
            terminal.print(f"[yellow]{escape(name)}[/yellow]{escape(said)}")
    if best is not None:
        worth = _worth(placed[best], best_by)
        share = f"10^{worth:.1f}" if best_by.endswith("_log10") else f"{worth:.1%}"
        terminal.print(
            f"[bold green]{best}[/bold green] survives the most: "
            f"{share} of what all sites together could carry."
        )
    return 0


def _best_by(placed: Sequence[Metrics]) -> str:
    """Where joins or varying outputs bend the load, the true set is what survives; over many streams the
    ratio is there as a logarithm."""
    known = ("true_feasible_ratio", "feasible_ratio_log10")
    stated = (name for name in known if any(getattr(own, name) is not UNSET for own in placed))
    return next(stated, "feasible_ratio")


def _worth(metrics: Metrics, best_by: str) -> float:
    """Minus infinity where the logarithm is missing: nothing is feasible."""
    value = getattr(metrics, best_by)
    return float(value) if isinstance(value, float) else -inf


def _as_json(result: dict[str, Any]) -> dict[str, Any]:
    return result | ({"metrics": result["metrics"].as_json()} if "metrics" in result else {})


def compare_policies(
    problem: Problem, chosen: tuple[str, ...], seed: int, report: Report
) -> dict[str, dict[str, Any]]:
    """Per policy its placement, metrics and plan_seconds, or the reason why there are none."""

    # A name nobody knows is an error before any work, not a row of the table.
    policies = [Timed(make_policy(name, {})) for name in chosen]
    results: dict[str, dict[str, Any]] = {}
    for done, policy in enumerate(policies):
        report(done / len(policies), policy.name)
        try:
            made = plan(problem, policy, seed=seed)
        except (UnsupportedError, InfeasibleError) as error:
            results[policy.name] = {"reason": str(error)}
            continue
        results[policy.name] = {
            "placement": made.placement.as_dict(),
            "rejected": dict(made.rejected),
            "metrics": made.metrics,
            "plan_seconds": policy.seconds,
        }
    return results
