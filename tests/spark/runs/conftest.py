"""A pipeline that keeps the even numbers of those it is fed, and the verbs that a user runs it with."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mooring.spark.sites.neighbours import NeighbourMeter

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker

ROOT = Path(__file__).parents[3]
PATIENCE_S = 150
SETTINGS = """\
sites: SITES
streams: {numbers: {site: here, rate: 100}}
queries: {kept: {site: here}}
statistics: {numbers: {cost_us: 5}, kept: {cost_us: 50}}
trigger_s: 0.3
"""
KEPT = """
from pyspark import pipelines as dp

@dp.table
def kept():
    return spark.readStream.table("numbers").filter("n % 2 = 0")
"""


@pytest.fixture(autouse=True)
def _no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests keep the CPUs busy. In a run of this process they take nothing from sites, so that what it
    decides by stated costs does not depend on them; `test_neighbours.py` tries what is left out here.
    """
    monkeypatch.setattr(NeighbourMeter, "left_cores", lambda meter, now: None)


@dataclass(frozen=True)
class EvenNumbers:
    """A project folder whose pipeline keeps the even numbers."""

    folder: Path

    def feed(self, numbers: range) -> None:
        hidden = self.folder / "input" / f".{numbers.start}"
        lines = [json.dumps({"n": n, "at": "2020-01-01T00:00:00Z"}) for n in numbers]
        hidden.write_text("\n".join(lines))
        hidden.rename(self.folder / "input" / f"f{numbers.start}.json")

    def kept(self) -> list[int]:
        from mooring.spark.pipeline.project import load_project
        from mooring.spark.runs.results import read_stored

        rows = read_stored(load_project(self.folder).settings.storage, "kept")
        return sorted(rows["n"].to_pylist()) if rows.num_rows else []

    def wait_for(self, upto: int) -> None:
        """Until the even numbers below `upto` were delivered, each once."""
        wait(lambda: len(self.kept()) >= upto // 2, f"the numbers up to {upto}")
        assert self.kept() == list(range(0, upto, 2))

    def detach(self, *words: str, cwd: Path = ROOT) -> int:
        """In the background, through a process that ends, so that the runner is nobody's child here."""
        command = [sys.executable, "-m", "mooring", "run", str(self.folder), "--detach", "--json", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=cwd)
        assert done.returncode == 0, done.stdout + done.stderr
        return int(json.loads(done.stdout)["pid"])


def wait(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.1)


@dataclass(frozen=True)
class Said:
    """What a verb answered."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        assert self.code == 0, self.out + self.err
        found: dict[str, Any] = json.loads(self.out)
        return found


EvenNumbersMaker = Callable[[str], EvenNumbers]
Verb = Callable[..., Said]
WaitUntil = Callable[[Callable[[], bool], str], None]


@pytest.fixture
def even_numbers(make_project: ProjectMaker) -> EvenNumbersMaker:
    """The project, given its sites as mooring.yml has them; one of them is `here`."""

    def make(sites: str) -> EvenNumbers:
        return EvenNumbers(make_project(settings=SETTINGS.replace("SITES", sites), kept_py=KEPT))

    return make


@pytest.fixture
def mooring(capsys: pytest.CaptureFixture[str]) -> Verb:
    """A verb in this process."""

    def run(*words: object) -> Said:
        from mooring.cli.main import main

        capsys.readouterr()
        code = main([str(word) for word in words])
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def up_already(site: EmbeddedSite) -> str:
    """A site of mooring.yml at the server that is up already, so that a run need not start one."""
    return f'{{capacity: 2, connect: "{site.endpoint.url}"}}'


@pytest.fixture
def reader_up_already(site: EmbeddedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verbs that read a project which names no endpoint read it at the server that is up already."""
    from mooring.model.problem.site import Connection, Site
    from mooring.spark.runs import project_run

    reader = Site(name="reader", capacity=2.0, connect=Connection(url=site.endpoint.url))
    monkeypatch.setattr(project_run, "_reader", lambda project: reader)


@pytest.fixture(scope="session")
def wait_until() -> WaitUntil:
    """Until something has happened, which is named should it never do."""
    return wait
