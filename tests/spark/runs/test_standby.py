"""A standby takes over from a killed run and from a frozen one; nothing of the old one counts any more."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

if TYPE_CHECKING:
    from tests.spark.runs.conftest import EvenNumbersMaker, Verb, WaitUntil

ROOT = Path(__file__).parents[3]


class Runners:
    """`mooring run` from several checkouts, each in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, checkout: Path, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mooring", "run", str(checkout), "--lease", "3s", *words]
        with self.log(len(self.started)).open("wb") as log:
            self.started.append(
                subprocess.Popen(
                    command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
                )
            )
        return self.started[-1]

    def log(self, number: int) -> Path:
        return self.folder / f"runner{number}.log"

    def said(self, number: int) -> str:
        return " ".join(self.log(number).read_text().split())


@pytest.fixture
def runners(tmp_path: Path) -> Iterator[Runners]:
    made = Runners(tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a killed run costs a lease")
def test_a_standby_takes_over_from_a_killed_run_and_from_a_frozen_one_that_comes_back(
    even_numbers: EvenNumbersMaker,
    up_already: str,
    runners: Runners,
    mooring: Verb,
    wait_until: WaitUntil,
    tmp_path: Path,
) -> None:
    numbers = even_numbers(f"{{here: {up_already}}}")
    settings = numbers.folder / "mooring.yml"
    settings.write_text(f"{settings.read_text()}storage: {tmp_path / 'storage'}\n")
    other = tmp_path / "checkout"
    shutil.copytree(numbers.folder, other)

    first = runners.start(numbers.folder)
    numbers.feed(range(50))
    numbers.wait_for(50)
    assert mooring("run", other).code == 4, "two runs over one storage"

    second = runners.start(other, "--standby", "--lease", "8s")
    wait_until(lambda: "waiting until it is released" in runners.said(1), "the standby to wait")
    assert f"process {first.pid} on" in runners.said(1)
    status = mooring("status", other, "--json").document
    assert (status["running"], status["pid"]) == (True, first.pid)
    first.kill()
    first.wait()
    numbers.feed(range(50, 100))
    numbers.wait_for(100)
    assert mooring("status", numbers.folder, "--json").document["pid"] == second.pid

    runners.start(numbers.folder, "--standby")
    wait_until(lambda: "waiting until it is released" in runners.said(2), "the next standby to wait")
    second.send_signal(signal.SIGSTOP)
    wait_until(lambda: "took over from" in runners.said(2), "the lease to run out")
    numbers.feed(range(100, 150))
    numbers.wait_for(150)
    second.send_signal(signal.SIGCONT)
    numbers.feed(range(150, 200))
    assert second.wait(60) == 4
    assert "this run was overtaken" in runners.said(1)
    numbers.wait_for(200)

    assert mooring("stop", other, "--json").document["stopped"]
    assert runners.started[2].wait(60) == 0
    numbers.wait_for(200)
    assert not mooring("status", other, "--json").document["running"]
