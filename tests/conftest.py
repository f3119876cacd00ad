"""One profile for all property tests: the same examples on every run, and no limit on the time of one.

And the order in which several workers (`-n 2`) share the tests out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

TESTS = Path(__file__).parent

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for servers comes first, whole runs before all, so that no worker is left alone with it."""

    def place(item: pytest.Item) -> tuple[bool, bool]:
        room = item.path.relative_to(TESTS).parts[:2]
        return room[0] != "spark", room != ("spark", "runs")

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """A worker that has run out takes over half of what another has left: neighbours in a file, which share
    servers, mostly stay together, and no test of minutes is waited for at the end.
    """
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None
