"""What Prometheus is given keeps its conventions; the dashboard that is shipped asks for what there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.service.served import TOKEN, serving_run
from tests.service.simulated_project import SimulatedProject

UNITS = ("seconds", "bytes", "cores", "ratio", "rows_per_second")
COUNTS = ("up", "troubles", "stalls", "moves", "under_way", "waiting", "info")
"""What is counted has no unit."""
MISSING = (
    "mooring_query_latency_limit_seconds",
    "mooring_trigger_seconds",
    "mooring_view_age_seconds",
    "mooring_view_refresh_seconds",
)
"""Without samples: the simulated project has one trigger less, and no views."""


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Metric]]:
    """After one list of moves."""
    folder = tmp_path_factory.mktemp("metrics") / "demo"
    with SimulatedProject(folder) as project, serving_run(project.folder) as served:
        proposal = served.until("/api/v1/proposal", lambda each: each["proposal"])["proposal"]
        assert served.ask("POST", "/api/v1/moves", {"id": proposal["id"]}, token=TOKEN)[0] == 202
        served.until("/api/v1/picture", lambda each: any("pause_s" in line for line in each["happenings"]))
        yield list(text_string_to_metric_families(served.ask("GET", "/metrics")[2]))


def test_names_say_their_unit_and_labels_are_few(metrics: list[Metric]) -> None:
    for metric in metrics:
        assert metric.documentation.endswith("."), metric.name
        if metric.type == "counter":
            assert all(sample.name.endswith("_total") for sample in metric.samples), metric.name
        else:
            assert metric.type == "gauge"
            assert metric.name.endswith((*UNITS, *COUNTS)), metric.name
        labels = [sample.labels for sample in metric.samples]
        assert all(each.pop("pipeline") == "network_monitoring" for each in labels), metric.name
        assert all(len(each) <= 1 for each in labels) or metric.name == "mooring_build_info", metric.name
        assert labels or metric.name in MISSING, metric.name


def test_what_was_moved_is_counted(metrics: list[Metric]) -> None:
    found = {
        sample.name: sample.value
        for metric in metrics
        for sample in metric.samples
        if len(sample.labels) <= 1
    }
    assert found["mooring_move_lists_total"] == 1.0
    assert found["mooring_last_move_pause_seconds"] > 0.0


def test_the_dashboard_asks_for_metrics_that_there_are(metrics: list[Metric]) -> None:
    dashboard = json.loads(Path("examples/grafana.json").read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"mooring_\w+", target["expr"])
    }
    there = {sample.name for metric in metrics for sample in metric.samples}
    rules = yaml.safe_load(Path("examples/prometheus-rules.yml").read_text())
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    asked |= {name for rule in alerts for name in re.findall(r"mooring_\w+", rule["expr"])}
    assert asked - set(MISSING) <= there
    guide = Path("docs/operating.md").read_text()
    assert all(f"`{rule['alert']}`" in guide for rule in alerts)
    assert len(asked) >= 15
    places = [tuple(panel["gridPos"][key] for key in ("x", "y")) for panel in dashboard["panels"]]
    assert len(set(places)) == len({panel["id"] for panel in dashboard["panels"]}) == len(places)
