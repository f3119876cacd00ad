"""The generated pipelines have the paper's shape, and are projects like any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lab.quota_bench.bench import BenchParams, require_quota, require_room
from lab.quota_bench.feeder import Feeder
from lab.quota_bench.workload import (
    DelayOperator,
    WorkloadParams,
    draw_workload,
    roots,
    write_project,
)
from mooring.errors import InputError, UnsupportedError


@pytest.mark.parametrize("seed", range(5))
def test_trees_have_equal_size_and_half_of_the_operators_keep_all_rows(seed: int) -> None:
    operators = draw_workload(np.random.default_rng(seed), WorkloadParams(operators_per_stream=4))
    assert len(operators) == 12
    assert roots(operators) == ["a0", "b0", "c0"]
    names = {operator.name for operator in operators}
    assert all(operator.reads is None or operator.reads in names for operator in operators)
    assert all(operator.reads is None or operator.reads[0] == operator.name[0] for operator in operators), (
        "an operator reads from its own tree"
    )
    assert sum(operator.selectivity == 1.0 for operator in operators) >= 6
    assert all(0.5 <= operator.selectivity <= 1.0 for operator in operators)


def test_rows_that_pass_carry_the_delay_of_those_that_do_not() -> None:
    everything = DelayOperator("a0", None, cost_us=1000.0, selectivity=1.0)
    half = DelayOperator("a1", "a0", cost_us=1000.0, selectivity=0.5)
    assert (everything.steps(0.1), half.steps(0.1)) == (10_000, 20_000)


def test_a_generated_project_loads_and_cuts_every_operator(tmp_path: Path) -> None:
    from mooring.spark.pipeline.project import load_project

    operators = draw_workload(np.random.default_rng(1))
    folder = tmp_path / "project"
    landing = write_project(folder, operators, {"ada": 0.5, "bea": 0.5}, step_us=0.1, trigger_s=4.0)
    project = load_project(folder)
    assert [site.capacity for site in project.settings.sites] == [0.5, 0.5]
    assert set(project.settings.cuts) == {o.reads for o in operators if o.reads}
    assert sorted(path.name for path in landing.iterdir()) == roots(operators)
    text = (folder / "transformations" / "delays.py").read_text()
    compile(text, "delays.py", "exec")
    assert text.count("@dp.table") == len(operators)


def test_quotas_beyond_the_machine_are_refused() -> None:
    require_room({"ada": 0.8, "bea": 0.8}, cores=2)
    with pytest.raises(UnsupportedError, match="one site's own"):
        require_room({"ada": 0.9, "bea": 0.9}, cores=2)


def test_a_machine_without_quotas_is_refused() -> None:
    require_quota("CPU quota 0.5 cores")
    with pytest.raises(UnsupportedError, match="no control groups"):
        require_quota("no CPU quota (no control groups on this machine)")


def test_more_sites_than_names_are_refused() -> None:
    with pytest.raises(InputError, match="9 sites"):
        BenchParams(sites=9)


def test_the_feeder_lands_exactly_what_came_due_and_forgets_what_was_read(tmp_path: Path) -> None:
    (tmp_path / "a0").mkdir()
    feeder = Feeder(tmp_path, ["a0"])
    feeder.set_rates({"a0": 2.5})
    for _ in range(40):
        feeder.land(1.0)
    assert feeder.fed() == {"a0": 100}
    lines = [line for file in sorted((tmp_path / "a0").iterdir()) for line in file.read_text().splitlines()]
    assert len(lines) == 100
    assert lines[0].startswith('{"n":0,')
    feeder.remove_read({"a0": 60})
    left = sum(len(file.read_text().splitlines()) for file in (tmp_path / "a0").iterdir())
    assert 40 < left < 100, "what was read goes, less a margin; what was not read stays"
