"""Metrics for Prometheus: a run's newest picture, named by its conventions, with few labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mooring.contracts.decider import STALLS
from mooring.controller.journal import lists_so_far
from mooring.service.view.run_view import RunView

Labelled = Mapping[str, float | None]


class RunCollector(Collector):
    def __init__(self, view: RunView) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        picture = self._view.document
        yield _one("mooring_up", "Whether the pipeline runs.", float(bool(picture["runs"])))
        if "waiting" in picture:
            return
        yield _one(
            "mooring_last_look_timestamp_seconds", "Time of the last look of the run.", picture["at_s"]
        )
        yield _one(
            "mooring_look_duration_seconds",
            "Duration of the last look and its decision.",
            picture["look_took_s"],
        )
        yield _one(
            "mooring_headroom_ratio",
            "Headroom: the factor by which all rates together can grow.",
            picture["headroom"]["factor"],
        )
        decides = picture["adapting"]["decider"]
        yield _gauge(
            "mooring_decider_info", "Decider of the run.", "decider", {decides: 1.0} if decides else {}
        )
        for name, help_text, label, values in _gauges(picture):
            yield _gauge(name, help_text, label, values)
        for name, help_text, label, values in _counters(picture):
            yield _counter(name, help_text, label, values)
        yield _one("mooring_troubles", "Fragments, sites and channels in trouble.", len(picture["troubles"]))
        proposed = (picture.get("proposal") or {}).get("moves") or []
        yield _one("mooring_proposed_moves", "Proposed moves.", len(proposed))
        yield _one(
            "mooring_move_under_way",
            "Whether the run is carrying out a list of moves.",
            picture["under_way"] is not None,
        )
        lists = CounterMetricFamily("mooring_move_lists", "Lists of moves begun so far.")
        lists.add_metric([], float(lists_so_far(self._view.source.records)))
        yield lists
        pauses = [float(each["pause_s"]) for each in picture["happenings"] if each.get("pause_s") is not None]
        yield _one(
            "mooring_last_move_pause_seconds", "The longest pause of the last list.", next(iter(pauses), None)
        )


def _gauges(picture: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Labelled]]:
    streams, sites = picture["streams"], picture["sites"]
    yield "mooring_stream_rows_per_second", "Measured rate.", "stream", _by(streams, "rate")
    growths = {name: each["factor"] for name, each in picture["headroom"]["streams"].items()}
    yield "mooring_stream_headroom_ratio", "Headroom of this stream alone.", "stream", growths
    stalls = [name.split(": ")[0] for name in picture["troubles"]]
    counts: Labelled = {str(kind): float(stalls.count(kind)) for kind in STALLS}
    yield "mooring_stalls", "Fragments, views and streams that make no progress, by kind.", "kind", counts
    up = {each["name"]: float(f"site {each['name']}" not in picture["troubles"]) for each in sites}
    yield "mooring_site_up", "Whether the site has no trouble.", "site", up
    yield "mooring_site_headroom_ratio", "Headroom of the site.", "site", _by(sites, "headroom")
    yield "mooring_site_load_cores", "CPU in use.", "site", _by(sites, "load_cores")
    yield "mooring_site_capacity_cores", "CPU capacity.", "site", _by(sites, "capacity_cores")
    memory = {each["name"]: each["resident_mb"] and each["resident_mb"] * 1e6 for each in sites}
    yield "mooring_site_resident_bytes", "Memory in use.", "site", memory
    queries, fragments = picture["queries"], picture["fragments"]
    yield (
        "mooring_query_latency_seconds",
        "Latency from entry to delivery.",
        "query",
        _by(queries, "latency_s"),
    )
    yield "mooring_query_latency_limit_seconds", "Latency limit.", "query", _by(queries, "limit_s")
    running = {each["name"]: float(each["runs"]) for each in fragments}
    yield "mooring_fragment_up", "Whether the fragment runs.", "fragment", running
    yield "mooring_fragment_files_waiting", "Backlog in files.", "fragment", _by(fragments, "files_waiting")
    yield "mooring_fragment_state_bytes", "Size of the state.", "fragment", _by(fragments, "state_bytes")
    yield (
        "mooring_fragment_batch_seconds",
        "Duration of the last micro-batch.",
        "fragment",
        _by(fragments, "batch_s"),
    )


def _counters(picture: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Labelled]]:
    fragments, queries = picture["fragments"], picture["queries"]
    yield "mooring_fragment_rows_read", "Rows read in this run.", "fragment", _by(fragments, "rows_in")
    yield "mooring_query_rows_delivered", "Rows delivered in this run.", "query", _by(queries, "rows")


def _by(items: list[Mapping[str, Any]], key: str) -> Labelled:
    return {str(item["name"]): item[key] for item in items}


def _one(name: str, help_text: str, value: float | None) -> Metric:
    metric = GaugeMetricFamily(name, help_text)
    if value is not None:
        metric.add_metric([], float(value))
    return metric


def _gauge(name: str, help_text: str, label: str, values: Labelled) -> Metric:
    metric = GaugeMetricFamily(name, help_text, labels=[label])
    for key, value in values.items():
        if value is not None:
            metric.add_metric([key], float(value))
    return metric


def _counter(name: str, help_text: str, label: str, values: Labelled) -> Metric:
    metric = CounterMetricFamily(name, help_text, labels=[label])
    for key, value in values.items():
        if value is not None:
            metric.add_metric([key], float(value))
    return metric
