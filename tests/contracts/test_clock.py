"""A clock that is set is told of, and one that only runs is not."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mooring.contracts.clock import ClockSteps


@dataclass
class SetClock:
    ahead_s: float = 0.0
    passed_s: float = 100.0

    def now_s(self) -> float:
        return 1.7e9 + self.passed_s + self.ahead_s

    def monotonic_s(self) -> float:
        return self.passed_s

    def sleep(self, seconds: float) -> None:
        self.passed_s += seconds


@pytest.mark.parametrize(("by_s", "said"), [(86_400.0, "forward by 86,400 s"), (-3600.0, "back by 3,600 s")])
def test_a_clock_that_is_set_while_a_run_goes_on_is_told_of_once(by_s: float, said: str) -> None:
    clock, told = SetClock(), list[str]()
    steps = ClockSteps(clock, told.append)
    for _ in range(100):
        clock.sleep(3600.0)
        clock.ahead_s += 0.5  # as machines correct theirs
        steps.look()
    assert told == []
    clock.ahead_s += by_s
    for _ in range(3):
        steps.look()
    (line,) = told
    assert said in line


def test_a_clock_that_is_behind_the_run_before_is_told_of() -> None:
    clock, told = SetClock(), list[str]()
    ClockSteps(clock, told.append, noted_s=clock.now_s() - 30.0)
    assert told == []
    ClockSteps(clock, told.append, noted_s=clock.now_s() + 7200.0)
    assert told == ["the clock is 7,200 s behind the time that the last run noted: one of the two was wrong"]
