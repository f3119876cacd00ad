"""Tables that several verbs print: sites with their load, policies side by side, headroom per stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from mooring.load.model import LoadModel
    from mooring.placement.placement import Placement

BAR_WIDTH = 20
NAMES_SHOWN = 6
CROWDED, FULL = 0.8, 1.0
"""Utilisation from which a bar turns yellow, and red."""

COMPARED = (
    # metric, heading, the better direction (+1: more is better), as a share
    ("feasible_ratio", "feasible\nratio", +1, False),
    ("true_feasible_ratio", "true\nratio", +1, False),
    ("plane_distance", "plane\ndistance", +1, False),
    ("headroom", "headroom\nall rates", +1, False),
    ("survived_share", "survived", +1, True),
    ("max_utilisation", "max\nutilisation", -1, True),
    ("bandwidth", "bandwidth\nbytes/s", -1, False),
    ("network_usage", "network\nusage", -1, False),
    ("qos_met", "limits\nmet", +1, True),
)


def bar(share: float, width: int = BAR_WIDTH) -> Text:
    """A share of a capacity as a bar; what is beyond it is marked, not drawn."""
    filled = min(max(share, 0.0), 1.0) * width
    whole = int(filled)
    part = "▏▎▍▌▋▊▉"[int((filled - whole) * 8) - 1] if int((filled - whole) * 8) else ""
    style = "red" if share > FULL else "yellow" if share >= CROWDED else "green"
    rest = width - whole - len(part)
    return Text.assemble((("█" * whole) + part, style), ("·" * rest, "dim"))


def site_table(model: LoadModel, placement: Placement) -> Table:
    """Load, capacity and what is left, site by site at the present rates."""
    problem = placement.problem
    loads = model.site_loads(placement.site_of_fragment, problem.rates)
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("site")
    table.add_column("load", justify="right")
    table.add_column("of cores", justify="right")
    table.add_column("used")
    table.add_column("", justify="right")
    table.add_column("runs", overflow="fold")
    for i, site in enumerate(problem.sites):
        used = float(loads[i]) / site.capacity
        names = [
            name
            for name, at in zip(problem.fragment_names, placement.site_of_fragment, strict=True)
            if at == i
        ]
        percent = Text(f"{used:.0%}", style="red bold" if used > FULL else "")
        table.add_row(
            Text(site.name),
            f"{loads[i]:.3g}",
            f"{site.capacity:g}",
            bar(used),
            percent,
            Text(shortened(names)),
        )
    return table


def shortened(names: Sequence[str], most: int = NAMES_SHOWN) -> str:
    if not names:
        return "nothing"
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def metric_lines(metrics: Mapping[str, Any]) -> Table:
    """The metrics that are one number, with their meaning."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(justify="right")
    for key, value in metrics.items():
        error = metrics.get(f"{key}_error")
        if key.endswith("_error") or isinstance(value, Mapping) or value is None:
            continue
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        table.add_row(key.replace("_", " "), f"{shown} ± {1.96 * error:.1g}" if error else shown)
    return table


def latency_table(metrics: Mapping[str, Any]) -> Table | None:
    """Latency per query, where the problem has what it takes."""
    latencies = metrics.get("latency_ms")
    if not isinstance(latencies, Mapping) or not latencies:
        return None
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("query")
    table.add_column("latency ms", justify="right")
    for query, latency in latencies.items():
        table.add_row(Text(query), "unknown" if latency is None else f"{latency:.4g}")
    return table


def headroom_table(room: Mapping[str, Any]) -> Table:
    """By what factor each stream alone, and all together, can grow, and which site is then full."""
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("rates of")
    table.add_column("can grow to", justify="right")
    table.add_column("then full")
    table.add_row(Text("all streams", style="bold"), _factor(room["factor"]), Text(room["site"] or ""))
    for stream, growth in room["streams"].items():
        table.add_row(Text(stream), _factor(growth["factor"]), Text(growth["site"] or ""))
    return table


def _factor(factor: float | None) -> Text:
    if factor is None:
        return Text("no limit", style="green")
    return Text(f"{factor:.3g} x", style="red" if factor < 1 else "yellow" if factor < 1.25 else "")


def comparison_table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    """Policies in rows, metrics in columns, the best of each column highlighted.

    `results` holds per policy either `metrics` and `plan_seconds`, or a `reason` why there are none.
    """
    values = {
        name: _compared_values(result["metrics"]) for name, result in results.items() if "metrics" in result
    }
    columns = [c for c in COMPARED if any(c[0] in own for own in values.values())]
    best = {
        key: max((sign * own[key] for own in values.values() if key in own), default=0.0)
        for key, _, sign, _ in columns
    }
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("policy")
    for _, heading, _, _ in columns:
        table.add_column(heading, justify="right")
    table.add_column("plan\nseconds", justify="right")
    for name, own in values.items():
        cells = [
            _compared_cell(own.get(key), sign, best[key], is_share) for key, _, sign, is_share in columns
        ]
        table.add_row(Text(name), *cells, f"{results[name]['plan_seconds']:.3f}")
    return table


def _compared_values(metrics: Mapping[str, Any]) -> dict[str, float]:
    values = {key: metrics.get(key) for key, *_ in COMPARED}
    values["headroom"] = metrics["headroom"]["factor"] if "headroom" in metrics else None
    return {key: float(value) for key, value in values.items() if value is not None}


def _compared_cell(value: float | None, sign: int, best: float, is_share: bool) -> Text:
    if value is None:
        return Text("")
    is_best = sign * value >= best - 1e-3 * abs(best)
    return Text(f"{value:.1%}" if is_share else f"{value:.4g}", style="bold green" if is_best else "")


def sentences(lines: Sequence[str]) -> str:
    return "\n".join(f"• {escape(line)}" for line in lines)
