"""The session of tests/controller/test_session.py, which drives the simulator there, drives Spark here."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.algorithms.ants.central_decider import AntsDecider
from mooring.algorithms.headroom.decider import HeadroomDecider
from mooring.algorithms.overlay.central_decider import OverlayDecider
from mooring.contracts.decider import Decider
from mooring.controller.cycle import Look
from mooring.controller.guards import GuardOptions
from mooring.controller.initial_placement import Wish, begin
from mooring.controller.session import RunSession, SessionOptions
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.planning import plan
from mooring.spark.pipeline.pipeline_problem import as_measured
from mooring.spark.pipeline.project import ASSUMED_RATE, load_project
from mooring.spark.pipeline.statistics_used import ASSUMED_COST_US
from mooring.spark.runs.mailbox import FileMailbox
from mooring.spark.runs.project_run import PreparedRun, prepared_on
from mooring.spark.runs.record.operation_statistics import OperationStatistics
from mooring.spark.runs.results import read_stored
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.runs.spark_run import SparkRun
from mooring.spark.sites.sites import SiteHandle, SiteHandles

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker

PATIENCE_S = 120.0
SETTINGS = """\
sites: {a: {capacity: 1}, b: {capacity: 1}}
streams: {numbers: {site: a, rate: 10}}
queries: {kept: {site: b}}
statistics:
  numbers: {cost_us: 1}
  kept: {cost_us: 400000, fixed_cores: 0.001}
trigger_s: 0.3
"""
KEPT = """
from pyspark import pipelines as dp

@dp.table
def kept():
    return spark.readStream.table("numbers").filter("n % 2 = 0")
"""
AT_A = FragmentSites({"numbers": "a", "kept": "a"})


@contextmanager
def prepared(folder: Path, site: EmbeddedSite) -> Iterator[PreparedRun]:
    """Two sites that share one warm server."""
    sites = SiteHandles(SiteHandle(name, 1.0, site.endpoint, None) for name in "ab")
    with prepared_on(load_project(folder), sites) as made:
        yield made


def feed(folder: Path, first: int, count: int) -> None:
    hidden = folder / "input" / f".{first}"
    hidden.write_text("\n".join(json.dumps({"n": n}) for n in range(first, first + count)))
    hidden.rename(folder / "input" / f"{first:06d}.json")


def has_rows(made: PreparedRun, count: int, passed: float) -> bool:
    assert passed < PATIENCE_S
    return read_stored(made.layout.root, "kept").num_rows >= count


def feed_until_moved(session: RunSession, folder: Path) -> int:
    """Ten rows a look until `kept` is at b; how many there were."""
    given, looks = 0, list[Look]()
    session.watchers.append(looks.append)

    def there(passed: float) -> bool:
        nonlocal given
        assert passed < PATIENCE_S
        if given <= 10 * len(looks):
            feed(folder, given, 10)
            given += 10
        return session.engine.homes().get("kept") == "b" and not session.desk.busy

    session.run(there)
    return given


def at_a(problem: Problem) -> Placement:
    return Placement.from_fragments(problem, AT_A)


def test_a_session_on_spark_measures_proposes_moves_and_reports(
    make_project: ProjectMaker, site: EmbeddedSite
) -> None:
    folder = make_project(settings=SETTINGS, kept_py=KEPT)
    looks: list[Look] = []
    with prepared(folder, site) as made:
        run = SparkRun(made, Wish("rod", placement=at_a, placement_name="by hand"))
        mailbox, files, given, asked = FileMailbox(made.project.work_folder), made.files, 0, None
        with run.started(pace=SessionOptions(look_s=0.5)) as (session, _):
            session.watchers.append(looks.append)
            deadline = time.monotonic() + PATIENCE_S
            while asked is None or (mailbox.answer(asked) or {}).get("state") != "done":
                assert time.monotonic() < deadline
                if given <= 10 * len(looks):
                    feed(folder, given, 10)
                    given += 10
                session.turn()
                session.clock.sleep(0.1)
                proposal = looks[-1].proposal if looks else None
                if asked is None and proposal is not None and proposal.moves:
                    moves = [(m.move.fragment, m.move.from_site, m.move.to_site) for m in proposal.moves]
                    assert moves == [("kept", "a", "b")]
                    assert "moving kept to b" in proposal.reason
                    asked = mailbox.ask(session.engine.homes(), moves)
            session.run(partial(has_rows, made, given // 2))
            status = files.read_status()
        run.end("over")
        assert status is not None
        assert status["fragments"]["kept"]["site"] == "b"
        assert status["placement"] == {"numbers:ingest": "a", "kept": "b"}
        assert status["stream_rates"].keys() == {"numbers"}
        assert run.journal.placement() == FragmentSites({"numbers": "a", "kept": "b"})
        kept = sorted(read_stored(made.layout.root, "kept")["n"].to_pylist())
        assert kept == list(range(0, given, 2))
    report = json.loads((folder / ".mooring" / "report.json").read_text())
    assert report["ended"] == "over"
    assert report["totals"]["fragments"]["kept"]["site"] == "b"


def test_what_a_run_has_learnt_the_next_reading_of_the_project_knows(
    make_project: ProjectMaker, site: EmbeddedSite
) -> None:
    """Its sites' processes cannot be seen, so no costs are; rates are measured."""
    folder = make_project(settings=SETTINGS.partition("streams")[0] + "trigger_s: 0.3\n", kept_py=KEPT)
    with prepared(folder, site) as made:
        assert made.problem.streams[0].rate == ASSUMED_RATE
        run = SparkRun(made, Wish("rod", placement=at_a, placement_name="by hand"))
        run.record.operation = operation = OperationStatistics({}, warm_after_s=0.0)
        with run.started(pace=SessionOptions(look_s=0.5)) as (session, _):

            def has_learnt(passed: float) -> bool:
                assert passed < PATIENCE_S
                feed(folder, 10 * int(10 * passed), 10)
                figures = operation.figures()
                return len(figures) == 2 and all(each.rows_in_per_s > 0.0 for each in figures.values())

            session.run(has_learnt)
        run.end("over")
    with prepared(folder, site) as made:
        learnt = {line.flow: line for line in made.layout.learnt.lines}
        assert learnt.keys() == {"numbers", "kept"}
        assert all(line.estimated for line in learnt.values())
        assert made.problem.streams[0].rate == learnt["numbers"].rate
        assert {operator.cost_us for operator in made.problem.operators} == {ASSUMED_COST_US}
        measured = as_measured(made.layout)[0]
        assert {operator.cost_us for operator in measured.operators} == {ASSUMED_COST_US}
        first = plan(made.problem, "rod")
        assert begin(made.problem, run.journal, Wish("rod")).placement == first.placement


def test_with_act_apply_nobody_has_to_ask(make_project: ProjectMaker, site: EmbeddedSite) -> None:
    folder = make_project(settings=SETTINGS, kept_py=KEPT)
    at_once = GuardOptions(looks=1, pause_s=0.0, least_gain=0.0, worth=0.0)
    with prepared(folder, site) as made:
        wish = Wish("rod", placement=at_a, placement_name="by hand")
        run = SparkRun(made, wish, decider=HeadroomDecider(), act="apply", guards=at_once)
        with run.started(pace=SessionOptions(look_s=0.5)) as (session, _):
            given = feed_until_moved(session, folder)
            session.run(partial(has_rows, made, given // 2))
            status = made.files.read_status()
        run.end("over")
        assert status is not None
        assert (status["adapting"]["decider"], status["adapting"]["act"]) == ("headroom", "apply")
        (entry,) = status["adapting"]["ledger"]
        assert entry["moves"] == [{"fragment": "kept", "from": "a", "to": "b"}]
        (done,) = [each for each in run.journal.records() if each["kind"] == "list"]
        assert done["asked_by"] == "adapting: headroom"
        assert any("kept moved from a to b" in line for line in run.record.incidents)
        kept = sorted(read_stored(made.layout.root, "kept")["n"].to_pylist())
        assert kept == list(range(0, given, 2))


FULL_AT_A = """\
sites: {a: {capacity: 0.1}, b: {capacity: 8}}
latency_ms: {a: {b: 20}}
streams: {numbers: {site: a, rate: 10}}
queries: {kept: {site: b, max_latency_ms: 60000}}
statistics:
  numbers: {cost_us: 1, fixed_cores: 0.001}
  kept: {cost_us: 40000, fixed_cores: 0.001}
trigger_s: 0.3
"""


@pytest.mark.parametrize(
    ("machines", "decider"), [("ants", AntsDecider(trigger_s=0.3)), ("overlay", OverlayDecider())]
)
def test_agents_leave_a_full_site_and_may_be_killed(
    make_project: ProjectMaker, site: EmbeddedSite, machines: str, decider: Decider
) -> None:
    """Who leads is at a, where numbers come in; rows are true whatever becomes of its agent."""
    folder, notes = make_project(settings=FULL_AT_A, kept_py=KEPT), list[str]()
    # The net would be quicker than agents, at looks every half second.
    at_once = GuardOptions(looks=1, pause_s=0.0, least_gain=0.0, worth=0.0, net_looks=0)
    with prepared(folder, site) as made:
        wish = Wish("rod", placement=at_a, placement_name="by hand")
        run = SparkRun(
            made, wish, note=notes.append, decider=decider, machines=machines, act="apply", guards=at_once
        )
        with run.started(pace=SessionOptions(look_s=0.5)) as (session, _):
            given = feed_until_moved(session, folder)
            said = made.project.members.members.own_folder("a") / "agent.json"
            os.kill(json.loads(said.read_text())["pid"], signal.SIGKILL)
            feed(folder, given, 10)
            given += 10
            session.run(partial(has_rows, made, given // 2))
        run.end("over")
        assert f"--adapt {machines}: the agents at the sites decide" in notes
        (done,) = [each for each in run.journal.records() if each["kind"] == "list"]
        assert done["asked_by"] == f"adapting: {machines}"
        kept = sorted(read_stored(made.layout.root, "kept")["n"].to_pylist())
        assert kept == list(range(0, given, 2))


def test_without_agents_a_run_says_what_decides_in_one_place() -> None:
    """Under its own name, by which status, ledger and report tell it from the machines."""
    run, notes = object.__new__(SparkRun), list[str]()
    run.decider, run.machines, run.note = AntsDecider(), "ants", notes.append
    decides = run._decider(None)
    assert decides is run.decider
    assert decides.name == "ants-central"
    assert notes == ["--adapt ants: no agents run, so ants-central decides in one place"]


def test_the_next_run_begins_where_the_last_one_was(make_project: ProjectMaker, site: EmbeddedSite) -> None:
    folder = make_project(settings=SETTINGS, kept_py=KEPT)
    feed(folder, 0, 10)
    for rows in (10, 20):
        with prepared(folder, site) as made:
            first = rows == 10
            wish = Wish("rod", placement=at_a, placement_name="by hand") if first else Wish("rod")
            run = SparkRun(made, wish)
            assert run.beginning.placement.by_fragment() == AT_A
            assert ("as the last run had it" in run.beginning.policy) == (not first)
            with run.started() as (session, _):
                session.run(partial(has_rows, made, rows // 2))
            run.end("over")
        assert RunFiles(folder / ".mooring").running_pid() is None
        feed(folder, 10, 10)
