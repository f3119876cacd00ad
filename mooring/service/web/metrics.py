"""Metrics for Prometheus: a run's newest picture, named by its conventions, with few labels."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from mooring import __version__
from mooring.contracts.decider import STALLS
from mooring.controller.journal import lists_so_far
from mooring.service.view.history import rows_waiting
from mooring.service.view.run_view import RunView

Labelled = Mapping[str, float | None]
Family = TypeVar("Family", GaugeMetricFamily, CounterMetricFamily)


class RunCollector(Collector):
    def __init__(self, view: RunView) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        picture, made = self._view.document, _Families(self._view.source.pipeline)
        yield made.info(
            "mooring_build",
            "Versions that the service runs with.",
            {"version": __version__, "python": platform.python_version(), "pyspark": _version("pyspark")},
        )
        yield made.one("mooring_up", "Whether the pipeline runs.", float(bool(picture["runs"])))
        if "waiting" not in picture:
            yield from self._figures(picture, made)

    def _figures(self, picture: Mapping[str, Any], made: _Families) -> Iterator[Metric]:
        yield made.one(
            "mooring_last_look_timestamp_seconds", "Time of the last look of the run.", picture["at_s"]
        )
        yield made.one(
            "mooring_start_timestamp_seconds",
            "Time of the start of the run.",
            picture["at_s"] - picture["since_start_s"],
        )
        yield made.one(
            "mooring_look_duration_seconds",
            "Duration of the last look and its decision.",
            picture["look_took_s"],
        )
        yield made.one("mooring_trigger_seconds", "Trigger of the micro-batches.", picture["trigger_s"])
        yield made.one(
            "mooring_headroom_ratio",
            "Headroom: the factor by which all rates together can grow.",
            picture["headroom"]["factor"],
        )
        decides = picture["adapting"]["decider"]
        yield made.gauge(
            "mooring_decider_info", "Decider of the run.", "decider", {decides: 1.0} if decides else {}
        )
        for name, help_text, label, values in _gauges(picture):
            yield made.gauge(name, help_text, label, values)
        for name, help_text, label, values in _counters(picture):
            yield made.counter(name, help_text, label, values)
        yield made.one(
            "mooring_troubles", "Fragments, sites and channels in trouble.", len(picture["troubles"])
        )
        proposed = (picture.get("proposal") or {}).get("moves") or []
        yield made.one("mooring_proposed_moves", "Proposed moves.", len(proposed))
        yield made.one(
            "mooring_move_under_way",
            "Whether the run is carrying out a list of moves.",
            picture["under_way"] is not None,
        )
        lists = {"": float(lists_so_far(self._view.source.records))}
        yield made.counter("mooring_move_lists", "Lists of moves begun so far.", "", lists)
        pauses = [float(each["pause_s"]) for each in picture["happenings"] if each.get("pause_s") is not None]
        yield made.one(
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
    queries, fragments, views = picture["queries"], picture["fragments"], picture["views"]
    latencies = _by(queries, "latency_s")
    yield "mooring_query_latency_seconds", "Latency from entry to delivery.", "query", latencies
    yield "mooring_query_latency_limit_seconds", "Latency limit.", "query", _by(queries, "limit_s")
    running = {each["name"]: float(each["runs"]) for each in fragments}
    yield "mooring_fragment_up", "Whether the fragment runs.", "fragment", running
    yield "mooring_fragment_files_waiting", "Backlog in files.", "fragment", _by(fragments, "files_waiting")
    waiting = {str(each["name"]): rows_waiting(each) for each in fragments}
    yield "mooring_fragment_rows_waiting", "Rows behind, in channels and topics.", "fragment", waiting
    yield "mooring_fragment_state_bytes", "Size of the state.", "fragment", _by(fragments, "state_bytes")
    batches = _by(fragments, "batch_s")
    yield "mooring_fragment_batch_seconds", "Duration of the last micro-batch.", "fragment", batches
    ages = {name: each["age_s"] for name, each in views.items()}
    yield "mooring_view_age_seconds", "Age of what the view shows.", "view", ages
    intervals = {name: each["refresh_s"] for name, each in views.items()}
    yield "mooring_view_refresh_seconds", "Least time between two refreshes.", "view", intervals


def _counters(picture: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Labelled]]:
    fragments, queries = picture["fragments"], picture["queries"]
    yield "mooring_fragment_rows_read", "Rows read in this run.", "fragment", _by(fragments, "rows_in")
    restarts = _by(fragments, "restarts")
    yield "mooring_fragment_restarts", "Starts after the first, moves aside.", "fragment", restarts
    yield "mooring_query_rows_delivered", "Rows delivered in this run.", "query", _by(queries, "rows")


def _by(items: list[Mapping[str, Any]], key: str) -> Labelled:
    return {str(item["name"]): item[key] for item in items}


class _Families:
    """Of one pipeline, whose name every sample has."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline

    def info(self, name: str, help_text: str, labels: Mapping[str, str]) -> Metric:
        metric = InfoMetricFamily(name, help_text, labels=["pipeline"])
        metric.add_metric([self._pipeline], dict(labels))
        return metric

    def one(self, name: str, help_text: str, value: float | None) -> Metric:
        return self.gauge(name, help_text, "", {"": value})

    def gauge(self, name: str, help_text: str, label: str, values: Labelled) -> Metric:
        return self._filled(GaugeMetricFamily(name, help_text, labels=_labels(label)), label, values)

    def counter(self, name: str, help_text: str, label: str, values: Labelled) -> Metric:
        return self._filled(CounterMetricFamily(name, help_text, labels=_labels(label)), label, values)

    def _filled(self, metric: Family, label: str, values: Labelled) -> Family:
        for key, value in values.items():
            if value is not None:
                metric.add_metric([self._pipeline, key] if label else [self._pipeline], float(value))
        return metric


def _labels(label: str) -> list[str]:
    return ["pipeline", label] if label else ["pipeline"]


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""
