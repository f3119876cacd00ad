"""What a run learns is what the next plan is made with, until something better is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from pyspark.sql.types import StructType

from mooring.planning import plan
from mooring.spark.definitions.definitions import Dataset, Place
from mooring.spark.pipeline.layout import Layout, cut_pipeline
from mooring.spark.pipeline.pipeline import FlowNode, Pipeline
from mooring.spark.pipeline.pipeline_problem import as_measured, problem_of
from mooring.spark.pipeline.project import load_project
from mooring.spark.pipeline.statistics_used import (
    assumed_sentence,
    cost_source,
    refresh_cost,
    statistics_notes,
)
from mooring.spark.runs.record.learning import EVERY_S, Learning
from mooring.spark.runs.record.operation_statistics import FragmentFigures, operation_statistics
from mooring.spark.runs.system_clock import SystemClock
from mooring.spark.storage.learnt import costs_file, read_learnt
from mooring.spark.storage.owned_folder import unowned

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

PLACE = Place("flows.py", 1)
SETTINGS = """\
sites: {here: {capacity: 2}, there: {capacity: 1}}
tables: {clean: {keep: read}, counts: {keep: all}}
trigger_s: 2
"""
FIGURES = FragmentFigures(
    site="here",
    rows_in_per_s=50.0,
    batches_per_s=0.5,
    cost_us=300.0,
    batch_cpu_s=0.9,
    cores=0.465,
    selectivity=0.1,
    bytes=24.0,
    state_rows=0,
    error=0.08,
    looks=110,
    estimated=False,
    cost_us_error=12.0,
    batch_cpu_s_error=0.05,
    rows_in_per_s_error=1.5,
)


def flow(name: str, *inputs: str, version: str = "1", stateful: bool = False) -> FlowNode:
    return FlowNode(
        name,
        name,
        () if name == "pages" else inputs,
        (),
        not inputs,
        stateful,
        StructType(),
        version,
        PLACE,
        unplaced_fingerprint=version,
        static=inputs if name == "pages" else (),
    )


def layout_of(folder: Path, edited: str = "") -> Layout:
    """clicks -> clean -> counts, the last two in one fragment, and the view pages of counts. `edited` has a
    new version.
    """
    flows = [
        flow("clicks"),
        flow("clean", "clicks"),
        flow("counts", "clean", stateful=True),
        flow("pages", "counts"),
    ]
    flows = [
        replace(each, fingerprint="2", unplaced_fingerprint="2") if each.name == edited else each
        for each in flows
    ]
    datasets = {each.name: Dataset(each.name, "table", PLACE) for each in flows}
    datasets["pages"] = Dataset("pages", "materialized", PLACE)
    pipeline = Pipeline("p", datasets, {each.name: each for each in flows})
    layout = cut_pipeline(load_project(folder), pipeline)
    return replace(layout, owner=unowned(layout.root))


@pytest.fixture
def folder(make_project: ProjectMaker) -> Path:
    return make_project(settings=SETTINGS)


def learn(layout: Layout, figures: dict[str, FragmentFigures]) -> None:
    Learning(layout, SystemClock()).note(figures)


def figures_of(layout: Layout) -> dict[str, FragmentFigures]:
    return {name: replace(FIGURES, cost_us=100.0 * (n + 1)) for n, name in enumerate(layout.fragments)}


def test_the_next_plan_is_made_with_what_was_learnt_and_says_so(folder: Path) -> None:
    before = layout_of(folder)
    assert "assumed costs of clicks" in (assumed_sentence(before) or "")
    learn(before, figures_of(before))
    layout = layout_of(folder)
    problem = problem_of(layout)
    cores = {operator.name: operator.fixed_cores for operator in problem.operators}
    costs = {operator.name: operator.cost_us for operator in problem.operators}
    assert layout.fragments["counts"].operators == ("clean", "counts")
    assert costs["clicks:ingest"] == pytest.approx(100.0)
    assert costs["clean"] + costs["counts"] == pytest.approx(200.0)
    assert cores["counts"] == pytest.approx(0.9 / 2.0)
    assert refresh_cost(layout, layout.pipeline.flows["pages"]).fixed_cpu_s == pytest.approx(0.9)
    assert problem.streams[0].rate == 50.0
    assert assumed_sentence(layout) is None
    said = " / ".join(statistics_notes(layout))
    assert "as learnt by runs, the last of 20" in said
    assert "assumed" not in said


def test_a_second_runs_first_plan_equals_one_made_with_the_learnt_costs(folder: Path) -> None:
    learn(layout_of(folder), figures_of(layout_of(folder)))
    second = problem_of(layout_of(folder))
    (folder / "mooring.yml").write_text(
        SETTINGS
        + "streams: {clicks: {rate: 50}}\nstatistics:\n"
        + "".join(
            f"  {line.flow}: {{cost_us: {line.cost_us}, error: {line.error}"
            + (
                f", selectivity: {line.selectivity}, bytes: {line.bytes}"
                if line.selectivity is not None
                else ""
            )
            + (
                f", fixed_cores: {line.batch_cpu_s / (60.0 if line.flow == 'pages' else 2.0)}"
                if line.batch_cpu_s is not None
                else ""
            )
            + "}\n"
            for line in read_learnt(layout_of(folder).root).lines
        )
    )
    costs_file(layout_of(folder).root).unlink()
    stated = problem_of(layout_of(folder))
    assert plan(second, "rod").placement.as_dict() == plan(stated, "rod").placement.as_dict()
    assert plan(second, "rod").metrics.as_json() == plan(stated, "rod").metrics.as_json()


def test_an_edit_makes_one_flow_stale_and_leaves_the_others(folder: Path) -> None:
    learn(layout_of(folder), figures_of(layout_of(folder)))
    layout = layout_of(folder, edited="counts")
    costs = {operator.name: operator.cost_us for operator in problem_of(layout).operators}
    assert costs["counts"] == pytest.approx(100.0)
    said = " / ".join(statistics_notes(layout))
    assert "stale: counts as learnt by runs before an edit" in said
    learn(layout, {"counts": replace(FIGURES, cost_us=7.0)})
    assert problem_of(layout_of(folder, edited="counts")).operators[2].cost_us == pytest.approx(3.5)
    assert problem_of(layout_of(folder)).operators[2].cost_us == pytest.approx(costs["counts"])


def test_statistics_yml_of_this_version_wins_and_a_stale_line_does_not(folder: Path) -> None:
    learn(layout_of(folder), figures_of(layout_of(folder)))
    for version, cost_us in (("1", 5.0), ("0", 100.0)):
        (folder / "statistics.yml").write_text(
            f'version: 1\nflows:\n  counts: {{cost_us: 5, batch_cpu_s: 0.1, flow: "{version}"}}\n'
        )
        layout = layout_of(folder)
        assert problem_of(layout).operators[2].cost_us == pytest.approx(cost_us)
        said = " / ".join(statistics_notes(layout))
        assert ("counts: runs measured" in said) == (version == "1")
    assert "counts as measured in statistics.yml" not in said
    (folder / "mooring.yml").write_text(SETTINGS + "statistics: {counts: {cost_us: 3}}\n")
    layout = layout_of(folder)
    assert problem_of(layout).operators[2].cost_us == 3.0
    assert as_measured(layout)[0].operators[2].cost_us == pytest.approx(100.0)


def test_a_run_writes_once_a_minute_and_at_its_end_and_keeps_fragments_that_stopped(folder: Path) -> None:
    layout = layout_of(folder)

    class Clock(SystemClock):
        at_s = 1000.0

        def monotonic_s(self) -> float:
            return self.at_s

    clock = Clock()
    learning = Learning(layout, clock)
    learning.note({})
    assert not read_learnt(layout.root).lines
    learning.note({"counts": FIGURES})
    learning.note({"pages": FIGURES})
    assert {line.flow for line in read_learnt(layout.root).lines} == {"clean", "counts"}
    clock.at_s += EVERY_S
    learning.note({"pages": FIGURES})
    assert {line.flow for line in read_learnt(layout.root).lines} == {"clean", "counts", "pages"}
    learning.note({"pages": replace(FIGURES, cost_us=1.0)}, last=True)
    found = read_learnt(layout.root).of("pages", "1")
    assert found is not None
    assert found.cost_us == 1.0


def test_a_fragment_without_rows_teaches_nothing_and_what_was_known_of_it_stays(folder: Path) -> None:
    learn(layout_of(folder), {"counts": FIGURES})
    learn(layout_of(folder), {"counts": replace(FIGURES, rows_in_per_s=0.0, cost_us=1.0), "pages": FIGURES})
    found = read_learnt(layout_of(folder).root)
    assert [line.cost_us for line in found.lines if line.flow == "counts"] == [150.0]


def test_a_run_goes_on_from_what_was_learnt_and_keeps_the_costs_it_was_planned_with(folder: Path) -> None:
    first = layout_of(folder)
    learn(first, figures_of(first))
    assert not first.learnt.lines  # what it plans again while it runs is not measured against itself
    second = layout_of(folder)
    prior = operation_statistics(second, problem_of(second))._priors["counts"]
    assert (prior.looks, prior.batch_cpu_s) == (110, 0.9)
    assert prior.cost_us == pytest.approx(figures_of(second)["counts"].cost_us)


def test_damage_is_named_in_the_notes(folder: Path) -> None:
    learn(layout_of(folder), figures_of(layout_of(folder)))
    file = costs_file(layout_of(folder).root)
    file.write_bytes(file.read_bytes().replace(b'"looks":110', b'"looks":910', 1))
    said = " / ".join(statistics_notes(layout_of(folder)))
    assert f"line 1 of {file}" in said
    assert "the next run measures it" in said


def test_a_profile_says_what_plans_used_before(folder: Path) -> None:
    learn(layout_of(folder), {"counts": FIGURES})
    (folder / "mooring.yml").write_text(SETTINGS + "statistics: {clicks: {cost_us: 3}}\n")
    layout = layout_of(folder)
    before = {name: cost_source(layout, flow) for name, flow in layout.pipeline.flows.items()}
    assert (before["clicks"].source, before["clicks"].cost_us) == ("stated", 3.0)
    assert (before["clean"].source, before["clean"].batch_cpu_s) == ("learnt", None)
    assert before["counts"].source == "learnt"
    assert before["counts"].batch_cpu_s == pytest.approx(0.9)
    assert before["pages"].source == "assumed"


def test_costs_of_a_site_whose_cpu_is_not_seen_are_never_used(folder: Path) -> None:
    learn(layout_of(folder), {"counts": replace(FIGURES, estimated=True)})
    layout = layout_of(folder)
    assert problem_of(layout).operators[2].cost_us == 20.0
    assert problem_of(layout).operators[2].selectivity == 0.1
    assert "have not measured the costs of clean, counts" in " / ".join(statistics_notes(layout))
    assert as_measured(layout)[0].operators[2].cost_us == 20.0


def test_what_could_not_keep_the_trigger_is_planned_with_the_load_that_it_was(folder: Path) -> None:
    """CPU of 9 s per batch at a trigger of 2 s would fill more sites than there are."""
    slow = replace(FIGURES, batch_cpu_s=9.0, batches_per_s=0.1, cores=1.2)
    learn(layout_of(folder), dict.fromkeys(("clicks", "counts"), slow))
    problem = problem_of(layout_of(folder))
    assert problem.operators[2].fixed_cores == pytest.approx(0.9)
    assert plan(problem, "rod").placement
