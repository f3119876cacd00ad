"""Spark's engine under a run that goes on while a list of moves is carried out."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.controller.initial_placement import Wish
from mooring.controller.move_list import resume
from mooring.controller.session import RunSession, SessionOptions
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.mailbox import FileMailbox
from mooring.spark.runs.project_run import prepared_on
from mooring.spark.runs.results import read_stored
from mooring.spark.runs.spark_run import SparkRun
from tests.spark.runs.mortal_site import MoveGate, three_sites

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker

PATIENCE_S = 120.0
SETTINGS = """\
sites: {a: {capacity: 2}, b: {capacity: 2}, c: {capacity: 2}}
streams: {numbers: {site: a, rate: 10}}
queries: {even: {site: b}, odd: {site: b}}
statistics: {numbers: {cost_us: 1}, even: {cost_us: 1}, odd: {cost_us: 1}}
trigger_s: 0.3
"""
FLOWS = """
from pyspark import pipelines as dp

@dp.table
def even():
    return spark.readStream.table("numbers").filter("n % 2 = 0")

@dp.table
def odd():
    return spark.readStream.table("numbers").filter("n % 2 = 1")
"""
BEGAN = FragmentSites({"numbers": "a", "even": "a", "odd": "c"})


def turn_until(session: RunSession, happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        session.turn()
        session.clock.sleep(0.1)


def feed(folder: Path, first: int, count: int) -> None:
    hidden = folder / "input" / f".{first}"
    hidden.write_text("\n".join(json.dumps({"n": n}) for n in range(first, first + count)))
    hidden.rename(folder / "input" / f"{first:06d}.json")


def test_a_site_that_dies_while_moves_are_under_way_is_recovered_before_they_end(
    make_project: ProjectMaker, site: EmbeddedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_project(settings=SETTINGS, flows_py=FLOWS)
    gate, (sites, mortal) = MoveGate(monkeypatch, PATIENCE_S), three_sites(site)
    with prepared_on(load_project(folder), sites) as made:

        def rows(dataset: str) -> list[int]:
            found = read_stored(made.layout.root, dataset)
            return sorted(found["n"].to_pylist()) if found.num_rows else []

        wish = Wish("rod", placement=lambda problem: Placement.from_fragments(problem, BEGAN))
        run, mailbox = SparkRun(made, wish), FileMailbox(made.project.work_folder)
        with run.started(pace=SessionOptions(look_s=0.5, list_patience_s=0.5)) as (session, _):
            feed(folder, 0, 20)
            turn_until(session, lambda: rows("odd") == list(range(1, 20, 2)), "the first rows")
            name = mailbox.ask(session.engine.homes(), [("even", "a", "b")])
            turn_until(session, gate.arrived.is_set, "the move to be under way")
            mortal.dead = True
            feed(folder, 20, 20)
            turn_until(session, lambda: session.engine.homes().get("odd", "c") != "c", "odd elsewhere")
            turn_until(session, lambda: rows("odd") == list(range(1, 40, 2)), "its rows")
            assert (mailbox.answer(name) or {})["state"] == "running"
            assert made.files.read_status() is not None
            assert ((made.files.read_status() or {})["list"] or {})["reached"] == "fenced"
            gate.open.set()
            turn_until(session, lambda: (mailbox.answer(name) or {})["state"] == "done", "the move")
            turn_until(session, lambda: rows("even") == list(range(0, 40, 2)), "all even rows")
            homes = session.engine.homes()

            # The run is ended in the midst of a move.
            gate.open.clear()
            gate.arrived.clear()
            mailbox.ask(homes, [("even", "b", "a")])
            turn_until(session, gate.arrived.is_set, "the move back to be under way")
            session.run(lambda passed: True)
        gate.open.set()
        run.end("over")
        assert homes["even"] == "b"
        found = resume(run.journal)
        assert found is not None
        assert found.placement == homes
        assert "cut short before its first was done" in found.why
        assert rows("odd") == list(range(1, 40, 2))
