"""A search is asked for when frames keep taking longer or shorter than predicted, and not because of one."""

from __future__ import annotations

import pytest

from mooring.chunks.search.drift import DriftLimits, DriftWatch
from mooring.errors import InputError


def told(watch: DriftWatch, *latencies_ms: float) -> list[bool]:
    return [watch.observe(each) for each in latencies_ms]


@pytest.mark.parametrize("lasting_ms", [140.0, 60.0])
def test_a_lasting_change_is_noticed_within_a_few_frames(lasting_ms: float) -> None:
    watch = DriftWatch(100.0)
    assert not any(told(watch, *[100.0] * 20))
    assert any(told(watch, *[lasting_ms] * 4))


def test_one_late_frame_is_not_a_change() -> None:
    watch = DriftWatch(100.0)
    assert not any(told(watch, *[100.0] * 10, 160.0, *[100.0] * 10))


def test_after_a_new_plan_its_own_prediction_counts_and_frames_of_the_old_one_do_not() -> None:
    watch = DriftWatch(100.0, DriftLimits(settling_frames=3))
    assert told(watch, *[150.0] * 10)[-1]
    watch.replanned(150.0)
    assert not any(told(watch, 300.0, 300.0, 300.0, *[150.0] * 20))
    assert watch.drift == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("wrong", [{"threshold": 0.0}, {"memory": 1.0}, {"settling_frames": -1}])
def test_wrong_limits_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="found threshold"):
        DriftLimits(**wrong)  # type: ignore[arg-type]
