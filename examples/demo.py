"""The demo: plan a network-monitoring problem, compare policies on a larger one, and draw what comes out.

Run with `make demo`. Writes out/demo.png.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mooring import Placement, Problem, compare
from mooring.cli.main import main
from mooring.figure_style import colour_of, tidy
from mooring.model.load.build import build_load_model
from mooring.model.load.model import LoadModel

HERE = Path(os.path.relpath(Path(__file__).parent))
MONITORING, FOREST = HERE / "network_monitoring.yaml", HERE / "forest.yaml"
POLICIES = ("rod", "correlation", "llf", "random", "connected")
SECTION = ("rod", "correlation", "llf", "connected")
STREAM_COLOURS = ("#1b6ca8", "#d9822b", "#3a9d5d", "#b5403c", "#7d5ba6")


def run(words: Sequence[str | Path]) -> None:
    print("\n$ mooring", *(str(word) for word in words))
    code = main([str(word) for word in words])
    if code != 0:
        sys.exit(code)


def draw_ratios(axes: Axes, ratios: dict[str, float]) -> None:
    names = list(ratios)
    bars = axes.barh(names[::-1], [ratios[n] for n in names[::-1]], color=[colour_of(n) for n in names[::-1]])
    axes.bar_label(bars, fmt="{:.0%}", padding=3)
    axes.set(xlim=(0, 1), xlabel="feasible set / ideal", title="What each policy survives")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    tidy(axes)
    axes.grid(visible=False, axis="y")


def draw_weights(axes: Axes, model: LoadModel, placement: Placement, title: str) -> None:
    """Stacked per site: its part of each stream's load, over its part of the capacity."""
    parts = model.site_coefficients(placement.site_of_fragment) / model.totals
    weights = parts / (model.capacity_cores / model.capacity_cores.sum())[:, None]
    sites = np.arange(1, model.site_count + 1)
    below = np.zeros(model.site_count)
    for k, stream in enumerate(model.variables):
        axes.bar(sites, weights[:, k], bottom=below, color=STREAM_COLOURS[k], label=stream.name, width=0.8)
        below += weights[:, k]
    axes.axhline(len(model.variables), color="black", linewidth=0.8, linestyle=":")
    axes.set(xlabel="site", ylabel="weight of each stream", title=title, xticks=sites)
    tidy(axes)


def draw_section(
    axes: Axes, problem: Problem, placements: dict[str, Placement], across: int, up: int
) -> None:
    """The feasible rates of two streams, the others staying where they are."""
    model = build_load_model(problem)
    highest = [_largest_rate(model, problem, k) for k in (across, up)]
    x, y = np.meshgrid(*(np.linspace(0, 1.1 * most, 300) for most in highest))
    rates = np.broadcast_to(problem.rates, (*x.shape, len(problem.streams))).copy()
    rates[..., across], rates[..., up] = x, y
    needed = model.variable_values(rates) @ model.totals
    axes.contourf(x, y, needed, levels=[0, model.capacity_left_cores], colors=["#f1ede2"])
    for name, placement in placements.items():
        used = (model.site_loads(placement.site_of_fragment, rates) / model.capacity_cores).max(axis=-1)
        axes.contour(x, y, used, levels=[1.0], colors=[colour_of(name)], linewidths=2)
        axes.plot([], [], color=colour_of(name), linewidth=2, label=name)
    axes.plot(problem.rates[across], problem.rates[up], "k*", markersize=10, label="now")
    axes.set(
        xlabel=f"{problem.streams[across].name} per second",
        ylabel=f"{problem.streams[up].name} per second",
        title="Rates that overload no site (shaded: ideal)",
    )
    axes.legend(frameon=False)
    tidy(axes)


def _largest_rate(model: LoadModel, problem: Problem, k: int) -> float:
    """Where stream k alone would fill all sites together."""
    factors = np.geomspace(1, 1000, 2000)
    rates = np.tile(problem.rates, (len(factors), 1))
    rates[:, k] *= factors
    fits = model.variable_values(rates) @ model.totals <= model.capacity_left_cores
    return float(rates[fits, k].max())


def draw(path: Path) -> None:
    problem = Problem.load(FOREST)
    plans = {name: made for name, made in compare(problem, POLICIES).items() if not isinstance(made, str)}
    placements = {name: made.placement for name, made in plans.items()}
    model = build_load_model(problem)
    figure = Figure(figsize=(11, 8), layout="constrained")
    figure.suptitle("100 operators, 5 streams, 10 sites")
    (ratios, section), (left, right) = figure.subplots(2, 2)
    draw_ratios(ratios, {name: made.metrics.feasible_ratio or 0.0 for name, made in plans.items()})
    draw_section(section, problem, {name: placements[name] for name in SECTION}, across=0, up=1)
    draw_weights(left, model, placements["rod"], "rod spreads every stream over all sites")
    draw_weights(right, model, placements["connected"], "connected heaps streams on few sites")
    for axes in (left, right):
        axes.set_ylim(0, 1.25 * len(problem.streams))
    left.legend(frameon=False, ncols=5, loc="upper center")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    run(["check", MONITORING])
    run(["plan", MONITORING])
    run(["headroom", MONITORING])
    run(["compare", FOREST, "--policies", ",".join(POLICIES)])
    target = Path("out") / "demo.png"
    draw(target)
    print(f"\nWrote {target}: what each policy survives, and why.")
