"""Who runs the trials is said by whoever starts an experiment, for as long as it lasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lab.experiments.trials import Row, run_trials, trials_run_by
from mooring.progress import Report


def square(number: int) -> list[Row]:
    return [{"number": number, "square": number**2}]


def backwards(trial: Callable[[Any], list[Row]], parameters: Sequence[Any], report: Report) -> list[Row]:
    return [row for each in reversed(parameters) for row in trial(each)]


def test_trials_run_here_in_order_unless_a_runner_is_named() -> None:
    done: list[float] = []
    rows = run_trials(square, [1, 2, 3, 4], lambda part, what: done.append(part))
    assert [row["square"] for row in rows] == [1, 4, 9, 16]
    assert done == [0.25, 0.5, 0.75, 1.0]


def test_a_runner_is_in_charge_until_its_block_ends_however_it_ends() -> None:
    with pytest.raises(ZeroDivisionError), trials_run_by(backwards):  # noqa: PT012
        assert [row["number"] for row in run_trials(square, [1, 2])] == [2, 1]
        raise ZeroDivisionError
    assert [row["number"] for row in run_trials(square, [1, 2])] == [1, 2]
