"""Tables that several verbs print: sites with their load, policies side by side, headroom per stream."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from mooring.cli.output.result_table import ResultTable
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import Placement
from mooring.quantity import decimal, duration, quantity

if TYPE_CHECKING:
    from mooring.model.evaluation.metrics import HeadroomMetric, Metrics

BAR_WIDTH = 20
NAMES_SHOWN = 6
MOST_ROWS = 40
"""Of a table for people; the JSON has them all."""
CROWDED, FULL = 0.8, 1.0
"""Utilisation from which a bar turns yellow, and red."""

COMPARED = (
    # metric, heading, the better direction (+1: more is better), how it is written
    ("feasible_ratio", "feasible\nratio", +1, "{:.3f}"),
    ("feasible_ratio_log10", "feasible\nratio", +1, "10^{:.1f}"),
    ("true_feasible_ratio", "true\nratio", +1, "{:.3f}"),
    ("feasible_ratio_below_max", "below\nmax rates", +1, "{:.3f}"),
    ("feasible_ratio_below_max_log10", "below\nmax rates", +1, "10^{:.1f}"),
    ("plane_distance", "plane\ndistance", +1, "{:.3f}"),
    ("headroom", "headroom", +1, "{:.2f} x"),
    ("survived_share", "survived", +1, "{:.0%}"),
    ("max_utilisation", "busiest\nsite", -1, "{:.0%}"),
    ("bandwidth", "band-\nwidth", -1, "B/s"),
    ("network_usage", "in\nflight", -1, "B"),
    ("qos_met", "limits\nmet", +1, "{:.0%}"),
    ("qos_queued_met", "met with\nqueues", +1, "{:.0%}"),
)
"""The metrics that policies are compared by."""

DESCRIBED = {
    # metric: its meaning, how it is written
    "feasible_ratio": ("of the ideal feasible set is feasible", "{:.1%}"),
    "feasible_ratio_log10": ("of the ideal feasible set is feasible", "10^{:.1f}"),
    "true_feasible_ratio": ("of the rates within the total capacity of all sites are feasible", "{:.1%}"),
    "feasible_ratio_below_max": ("of the ideal set below the maximum rates is feasible", "{:.1%}"),
    "feasible_ratio_below_max_log10": ("of the ideal set below the maximum rates is feasible", "10^{:.1f}"),
    "plane_distance": ("plane distance, from the lower bound to the nearest overload", "{:.3f}"),
    "survived_share": ("of the rate history causes no overload", "{:.1%}"),
    "max_utilisation": ("utilisation of the busiest site at the present rates", "{:.0%}"),
    "bandwidth": ("cross between sites", "B/s"),
    "network_usage": ("in flight between sites", "B"),
    "delay_penalty": ("times the direct latency: the mean detour by way of the operators", "{:.2f}"),
    "qos_met": ("of the latency limits are met without queues", "{:.0%}"),
    "qos_queued_met": ("of the latency limits are met with queues", "{:.0%}"),
}


def written(value: float, form: str) -> str:
    return form.format(value) if "{" in form else quantity(value, form)


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
    used_part = [float(load) / site.capacity for load, site in zip(loads, problem.sites, strict=True)]
    running: list[list[str]] = [[] for _ in problem.sites]
    for name, at in zip(problem.fragment_names, placement.site_of_fragment.tolist(), strict=True):
        running[at].append(name)
    shown = _largest(used_part)
    for i in shown:
        site, used, names = problem.sites[i], used_part[i], running[i]
        percent = Text(f"{used:.0%}", style="red bold" if used > FULL else "")
        table.add_row(
            Text(site.name),
            decimal(loads[i]),
            f"{site.capacity:g}",
            bar(used),
            percent,
            Text(shortened(names)),
        )
    if len(shown) < len(problem.sites):
        idle = sum(not names for names in running)
        rest = (
            f"{len(problem.sites) - len(shown)} more sites with less load; {idle} of "
            f"{len(problem.sites)} sites are idle"
        )
        table.add_row("...", "", "", "", "", Text(rest, style="dim"))
    return table


def _largest(values: Sequence[float]) -> list[int]:
    """Places of the values that are shown, in order: the largest where there are too many."""
    places = sorted(range(len(values)), key=lambda place: -values[place])
    return sorted(places[:MOST_ROWS])


def shortened(names: Sequence[str], most: int = NAMES_SHOWN) -> str:
    if not names:
        return "nothing"
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _shown(metrics: Metrics, key: str) -> Any:
    """None where it has no value, or the problem lacks the figures."""
    value = getattr(metrics, key, UNSET)
    return None if value is UNSET else value


def metric_lines(metrics: Metrics) -> Table:
    """The metrics that are one number, each with its meaning."""
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for key, (meaning, form) in DESCRIBED.items():
        if (value := _shown(metrics, key)) is None or _shown(metrics, f"{key}_log10") is not None:
            continue
        error = _shown(metrics, f"{key}_error")
        digits = ".1f" if key.endswith("_log10") else ".1%"
        interval = f"  (± {1.96 * error:{digits}})" if error and error > 5e-4 else ""
        table.add_row(written(value, form), Text(meaning + interval, style="dim"))
    return table


def latency_table(metrics: Metrics) -> Table | None:
    """Latency per query, where the problem has what it takes."""
    latencies = metrics.latency_ms
    if not latencies:
        return None
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("query")
    table.add_column("latency ms", justify="right")
    table.add_column("mean with queues", justify="right")
    queued = metrics.latency_queued_ms or {}
    queries = list(latencies.items())
    shown = _largest([inf if latency is None else latency for _, latency in queries])
    for query, latency in (queries[place] for place in shown):
        with_queues = (
            "full" if query in queued and queued[query] is None else _milliseconds(queued.get(query))
        )
        table.add_row(Text(query), _milliseconds(latency), with_queues)
    if len(shown) < len(queries):
        table.add_row(Text(f"{len(queries) - len(shown)} more", style="dim"), Text("less", style="dim"))
    return table


def _milliseconds(latency: float | None) -> str:
    return "unknown" if latency is None else decimal(latency, 4)


def headroom_table(room: HeadroomMetric, *, all_streams: bool = False) -> Table:
    """By what factor each stream alone, and all together, can grow, and which site is then full: those that
    can grow least, where there are many."""
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("rates of")
    table.add_column("can grow to", justify="right")
    table.add_column("then full")
    table.add_row(Text("all streams", style="bold"), _factor(room.factor), Text(room.site or ""))
    streams = list(room.streams.items())
    factors = [inf if growth.factor is None else growth.factor for _, growth in streams]
    shown = range(len(streams)) if all_streams else _largest([-factor for factor in factors])
    for stream, growth in (streams[place] for place in shown):
        table.add_row(Text(stream), _factor(growth.factor), Text(growth.site or ""))
    if rest := set(range(len(streams))).difference(shown):
        least = min(factors[place] for place in rest)
        free = sum(factors[place] == inf for place in rest)
        said = f"{len(rest)} more" + (f", {free} of them without limit" if free else "")
        further = Text("no limit" if least == inf else f"{decimal(least)} x or more", style="dim")
        table.add_row(Text(said, style="dim"), further, Text("--all shows them", style="dim"))
    return table


def _factor(factor: float | None) -> Text:
    if factor is None:
        return Text("no limit", style="green")
    return Text(f"{decimal(factor)} x", style="red" if factor < 1 else "yellow" if factor < 1.25 else "")


def comparison_tables(
    placed: Mapping[str, Metrics],
    plan_seconds: Mapping[str, float],
    width: int,
    unranked: Collection[str] = (),
) -> list[Table]:
    """Policies in rows, metrics in columns, the best of each column highlighted; several tables one below the
    other where one would be wider than `width`. Nothing of the `unranked` is the best.
    """
    values = {name: _compared_values(metrics) for name, metrics in placed.items()}
    columns: list[tuple[str, list[Text]]] = []
    for key, heading, sign, form in COMPARED:
        if any(key in own for own in values.values()):
            ranked = {name: own[key] for name, own in values.items() if key in own and name not in unranked}
            best = max((sign * value for value in ranked.values()), default=inf)
            cells = [
                _compared_cell(own.get(key), sign, best if name in ranked else inf, form)
                for name, own in values.items()
            ]
            columns.append((heading, cells))
    columns.append(("time to\nplan", [Text(duration(plan_seconds[name])) for name in values]))
    names = [Text(name) for name in values]
    fixed = _width("policy", names) + _EDGES
    groups: list[list[tuple[str, list[Text]]]] = []
    room = 0
    for heading, cells in columns:
        room -= _width(heading, cells)
        if not groups or room < 0:
            groups.append([])
            room = width - fixed - _width(heading, cells)
        groups[-1].append((heading, cells))
    return [_compared(names, group) for group in groups]


_EDGES = 2
"""Columns of text left and right of a table."""


def _width(heading: str, cells: Sequence[Text]) -> int:
    return max(*map(len, heading.split("\n")), *map(len, cells), 0) + 3


def _compared(names: Sequence[Text], group: Sequence[tuple[str, Sequence[Text]]]) -> Table:
    table = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1))
    table.add_column("policy", no_wrap=True)
    for heading, _ in group:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in zip(names, *(cells for _, cells in group), strict=True):
        table.add_row(*row)
    return table


def _compared_values(metrics: Metrics) -> dict[str, float]:
    logarithms = {key for key, *_ in COMPARED if getattr(metrics, f"{key}_log10", UNSET) is not UNSET}
    values = {key: _shown(metrics, key) for key, *_ in COMPARED if key not in logarithms}
    values["headroom"] = metrics.headroom.factor
    return {key: float(value) for key, value in values.items() if value is not None}


def _compared_cell(value: float | None, sign: int, best: float, form: str) -> Text:
    if value is None:
        return Text("")
    is_best = best < inf and sign * value >= best - 1e-3 * abs(best)
    return Text(written(value, form), style="bold green" if is_best else "")


def result_table(results: ResultTable) -> Table:
    """An experiment's table; a narrow terminal folds its cells and cuts nothing off."""
    title = Text(results.title, style="italic") if results.title else None
    table = Table(box=None, header_style="bold", pad_edge=False, title=title, title_justify="left")
    for heading, is_text in zip(results.headings, results.is_text, strict=True):
        table.add_column(Text(heading), justify="left" if is_text else "right", overflow="fold")
    for row in results.rows:
        table.add_row(*map(Text, row))
    return table


def rejections(rejected: Mapping[str, str], queries: int) -> str:
    """What to say of a plan that leaves out queries, after whatever was said of it; nothing if it has all.

    >>> rejections({"top": "too late"}, 3)
    ': 1 of 3 queries rejected'
    """
    return f": {len(rejected)} of {queries} queries rejected" if rejected else ""


def shared_sentences(shared: Mapping[str, str]) -> list[str]:
    """What an engine that shares operators can save, in words.

    >>> shared_sentences({"b": "a", "c": "a"})
    ['An engine that shares equal operators would not run 2: b and c (a computes the same at their site).']
    """
    if not shared:
        return []
    by_runner: dict[str, list[str]] = {}
    for name, runner in shared.items():
        by_runner.setdefault(runner, []).append(name)
    groups = [
        f"{_listed(names)} ({runner} computes the same at {'its' if len(names) == 1 else 'their'} site)"
        for runner, names in by_runner.items()
    ]
    return [f"An engine that shares equal operators would not run {len(shared)}: {shortened(groups)}."]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def sentences(lines: Sequence[str]) -> Table:
    """A list with a hanging indent."""
    table = Table.grid(padding=(0, 1))
    for line in lines:
        table.add_row(Text("•", style="dim"), Text(line))
    return table
