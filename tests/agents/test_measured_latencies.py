"""What agents know becomes the planner's latencies, and what is missing is said."""

from __future__ import annotations

import pytest

from mooring.agents.measured_latencies import keep_survey, measured_latencies
from mooring.agents.transport.members import Members
from mooring.coordination.survey import NetworkFigures, SiteFigures
from mooring.model.network.coordinate import Coordinate


def figures(x_ms: float, *latency_ms: tuple[int, float]) -> SiteFigures:
    return SiteFigures(Coordinate((x_ms, 0.0)), latency_ms)


def test_measured_pairs_count_as_measured_and_others_as_predicted(members: Members) -> None:
    known = NetworkFigures(((0, figures(0.0, (1, 10.0))), (1, figures(9.0, (0, 14.0))), (2, figures(30.0))))
    keep_survey(members, "athens", known)
    found = measured_latencies(members)
    assert found.latency_ms is not None
    assert found.latency_ms["athens"] == {"berlin": 12.0, "cairo": 30.0, "delhi": 30.0, "essen": 30.0}
    assert found.notes == (
        "agents measured the latencies of 1 of 10 pairs of sites",
        "predicted from network coordinates: athens - cairo, berlin - cairo",
        "no measured latency of athens - delhi, athens - essen, berlin - delhi, berlin - essen, "
        "cairo - delhi and 2 more pairs: assumed 30 ms, the largest measured",
    )


def test_newer_figures_of_a_site_count_whoever_kept_them(members: Members) -> None:
    keep_survey(members, "berlin", NetworkFigures(((0, figures(0.0, (1, 10.0))),)))
    keep_survey(members, "athens", NetworkFigures(((0, figures(0.0, (1, 20.0))),)))
    found = measured_latencies(members)
    assert found.latency_ms is not None
    assert found.latency_ms["athens"]["berlin"] == pytest.approx(20.0)


def test_figures_are_of_names_however_the_sites_are_numbered(members: Members) -> None:
    keep_survey(members, "athens", NetworkFigures(((0, figures(0.0, (1, 10.0))),)))
    others = Members(members.folder, ("oslo", "berlin", "athens"))
    found = measured_latencies(others)
    assert found.latency_ms is not None
    assert found.latency_ms["berlin"]["athens"] == pytest.approx(10.0)


def test_nothing_known_is_not_zero(members: Members) -> None:
    (members.own_folder("athens")).mkdir(parents=True)
    (members.own_folder("athens") / "survey.json").write_text("{damaged")
    found = measured_latencies(members)
    assert found.latency_ms is None
    assert "agents have measured no latencies yet" in found.notes[0]
