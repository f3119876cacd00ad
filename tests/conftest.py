"""One profile for all property tests: the same examples on every run, and no limit on the time of one.

And the order in which several workers (`-n 2`) share the tests out, and what they share.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

TESTS = Path(__file__).parent

AS_THE_ENVIRONMENT_SAYS = sys.dont_write_bytecode

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def no_power_failures() -> Iterator[None]:
    """No power fails in the process of the tests, and a disk takes longer to sync than most of them take. The
    processes that tests start do sync, and tests of power cuts have a disk of their own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # refuses the handles that are refused otherwise
        yield


def pytest_configure(config: pytest.Config) -> None:
    """What Mooring keeps between runs is kept with pytest's own things, apart from the user's."""
    if (cache := getattr(config, "cache", None)) is not None:
        os.environ.setdefault("MOORING_CACHE", str(cache.mkdir("mooring")))


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected keeps its bytecode, whatever the environment says: without, every worker of every run
    compiles 700 modules and rewrites their assertions, and every process that a test starts compiles the
    package. What tests make themselves, and make anew within a second, keeps none.
    """
    sys.dont_write_bytecode = False
    yield
    sys.dont_write_bytecode = AS_THE_ENVIRONMENT_SAYS


def pytest_sessionstart(session: pytest.Session) -> None:
    """Beside the first tests of a whole suite on several workers, an archive of Spark's classes is built
    unless there is one: half a minute of CPU, once, and a server that starts after it needs half of its own.
    """
    config = session.config
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if not (is_whole and config.getoption("numprocesses", None) and "MOORING_CACHE" in os.environ):
        return
    building = [sys.executable, "-m", "tests.spark.quick_start"]
    quiet = subprocess.DEVNULL
    builder = subprocess.Popen(building, cwd=TESTS.parent, stdin=quiet, stdout=quiet, stderr=quiet)

    def until_it_has_ended() -> None:
        builder.wait()

    config.add_cleanup(until_it_has_ended)


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need Spark come last; `make test` looks for them in `spark/`. Those that start servers of
    their own are marked by hand and come first among them, then whole runs, then the rest, which take the
    shared server and are marked here. So no worker is left alone with a test of a minute at the end.
    """

    def place(item: pytest.Item) -> int:
        if item.get_closest_marker("spark") is not None:
            return 1
        servers = {"site", "cluster"}.intersection(getattr(item, "fixturenames", ()))
        if not servers or not item.path.is_relative_to(TESTS / "spark"):
            return 0
        item.add_marker("spark")
        return 2 if item.path.parent.name == "runs" else 3

    items.sort(key=place)
    for item in items:
        if item.get_closest_marker("spark") and not item.path.is_relative_to(TESTS / "spark"):
            raise pytest.UsageError(f"{item.nodeid} is marked `spark`: `make test` runs those of tests/spark")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """A worker that has run out takes over half of what another has left: neighbours in a file, which share
    servers, mostly stay together, and no test of minutes is waited for at the end.
    """
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None
