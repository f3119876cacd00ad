"""The dashboard that is shipped asks for metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.service.served import serving_run
from tests.service.simulated_project import SimulatedProject


def test_the_dashboard_asks_for_metrics_that_there_are(tmp_path: Path) -> None:
    dashboard = json.loads(Path("examples/grafana.json").read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"mooring_\w+", target["expr"])
    }
    with SimulatedProject(tmp_path / "demo") as project, serving_run(project.folder) as served:
        served.until("/api/v1/picture", lambda picture: "headroom" in picture)
        text = served.ask("GET", "/metrics")[2]
    there = set(re.findall(r"^(mooring_\w+)(?:\{| )", text, re.MULTILINE))
    declared = set(re.findall(r"^# TYPE (mooring_\w+)", text, re.MULTILINE))
    assert asked <= there | declared
    assert len(asked) >= 10
