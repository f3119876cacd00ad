"""`mooring moves` as a user meets it: the list, its application by the running process, and the way back."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.contracts.engine import MoveReport
from mooring.controller.journal import Journal
from mooring.controller.move_desk import MoveDesk
from mooring.controller.move_list import InBackground
from mooring.controller.run_state import RunState
from mooring.model.deployment.move_stages import Reached, ignored
from mooring.model.placement.placement import FragmentSites
from mooring.model.problem.problem import Problem
from mooring.spark.runs.found_run import find_run
from mooring.spark.runs.mailbox import FileMailbox
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.runs.system_clock import SystemClock

if TYPE_CHECKING:
    from tests.spark.runs.conftest import EvenNumbersMaker, Verb, WaitUntil

APART, TOGETHER = {"numbers:ingest": "here", "kept": "there"}, {"numbers:ingest": "here", "kept": "here"}


PROBLEM = {
    "sites": {"here": {"capacity": 1}, "there": {"capacity": 1}},
    "streams": {"numbers": {"rate": 1}},
    "operators": {
        "numbers:ingest": {"inputs": ["numbers"], "cost_us": 1, "site": "here", "fragment": "numbers"},
        "kept": {"inputs": ["numbers:ingest"], "cost_us": 1},
    },
}
"""As a run leaves it behind for those who plan moves."""


def test_moves_are_listed_applied_by_the_running_process_rolled_back_and_resumed(
    even_numbers: EvenNumbersMaker, up_already: str, mooring: Verb, tmp_path: Path
) -> None:
    project = even_numbers(f"{{here: {up_already}, there: {up_already}}}")
    folder = project.folder
    plan, back = tmp_path / "plan.json", tmp_path / "back.json"
    plan.write_text(json.dumps(APART))
    back.write_text(json.dumps(TOGETHER))
    to_plan = ("moves", folder, "--to", plan)
    try:
        project.detach("--placement", str(back))
        project.feed(range(100))
        project.wait_for(100)
        shown = mooring(*to_plan, "--json").document
        assert shown["running"]
        assert shown["applied"] is None
        assert [(m["fragment"], m["from"], m["to"]) for m in shown["moves"]] == [("kept", "here", "there")]
        assert shown["moves"][0]["after"]["headroom"] > shown["before"]["headroom"]
        applied = mooring(*to_plan, "--apply", "--json").document["applied"]
        assert applied["state"] == "done"
        assert applied["placement"] == {"numbers": "here", "kept": "there"}
        assert applied["steps"][0]["pause_s"] > 0
        project.feed(range(100, 200))
        project.wait_for(200)
        rolled_back = mooring("moves", folder, "--rollback", "--apply")
        assert rolled_back.code == 0, rolled_back.err
        assert "kept: there -> here: done after" in rolled_back.err
        assert mooring(*to_plan, "--apply").code == 0
        assert not os.listdir(folder / ".mooring" / "requests")
    finally:
        mooring("stop", folder)
    journal = Journal(find_run(folder, SystemClock()).record, time.time)
    past = list(journal.past_moves())  # by which the next pauses are predicted
    assert {each.kind for each in past} == {"stateless"}
    assert any(each.batch_s > 0.0 for each in past)  # of a fragment that had run a batch where it left
    asked = [
        (record["kind"], record["asked_by"].partition(": mooring ")[2])
        for record in journal.records()
        if "asked_by" in record
    ]
    assert asked == [
        ("list", f"moves {folder} --to {plan} --apply --json"),
        ("list", f"moves {folder} --rollback --apply"),
        ("list", f"moves {folder} --to {plan} --apply"),
        ("stop", f"stop {folder}"),
    ]
    refused = mooring("moves", folder, "--to", back, "--apply")
    assert refused.code == 4
    assert "does not run" in refused.err
    assert "--placement" in refused.err
    project.feed(range(200, 300))
    try:
        project.detach()
        project.wait_for(300)
        status = mooring("status", folder, "--json").document["last"]
        assert status["placement"] == APART
        assert "as the last run had it" in status["policy"]
    finally:
        mooring("stop", folder)


def test_a_pinned_fragment_and_a_project_that_never_ran_are_refused(
    even_numbers: EvenNumbersMaker, mooring: Verb, tmp_path: Path
) -> None:
    folder = even_numbers("{here: {capacity: 2}, there: {capacity: 2}}").folder
    work = folder / ".mooring"
    work.mkdir()
    (work / "problem.json").write_text(json.dumps(PROBLEM))
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"numbers:ingest": "there", "kept": "there"}))
    never = mooring("moves", folder, "--to", plan)
    assert never.code == 2
    assert "has never run" in never.err
    Journal(work, time.time).note_placement(FragmentSites({"numbers": "here", "kept": "here"}), "planned")
    pinned = mooring("moves", folder, "--to", plan)
    assert pinned.code == 3
    assert "'numbers' is pinned to 'here'" in pinned.err
    no_list = mooring("moves", folder, "--rollback")
    assert no_list.code == 2
    assert "--rollback" in no_list.err


class Endless:
    """An engine whose moves go on until somebody aborts them."""

    def __init__(self) -> None:
        self.running = {"numbers": "here", "kept": "here"}

    def homes(self) -> FragmentSites:
        return FragmentSites(dict(self.running))

    def move(self, fragment: str, to_site: str, reached: Reached = ignored) -> MoveReport:
        while True:
            reached("prepared")
            time.sleep(0.05)


def test_a_list_is_aborted_from_another_process(
    even_numbers: EvenNumbersMaker, mooring: Verb, wait_until: WaitUntil
) -> None:
    """Here from this one: a desk serves the project's mailbox, and both askers learn how it ended."""
    folder = even_numbers("{here: {capacity: 2}, there: {capacity: 2}}").folder
    files, engine, over = RunFiles(folder / ".mooring"), Endless(), threading.Event()
    idle = mooring("moves", folder, "--abort")
    assert idle.code == 2
    assert "does not run" in idle.err
    with files.held():
        (files.folder / "problem.json").write_text(json.dumps(PROBLEM))
        files.write_status({"fragments": {name: {"site": site} for name, site in engine.running.items()}})
        journal, mailbox = Journal(files.folder, time.time), FileMailbox(files.folder)
        state = RunState(Problem.from_dict(PROBLEM))
        desk = MoveDesk(state, engine, journal, mailbox, InBackground())  # type: ignore[arg-type]
        name = mailbox.ask(engine.homes(), [("kept", "here", "there")], "somebody")

        def serve() -> None:
            while not over.wait(0.05):
                for request in desk.requests():
                    list(desk.serve(request))
                list(desk.poll())

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            wait_until(lambda: mailbox.answer(name) is not None, "the list to be begun")
            aborted = mooring("moves", folder, "--abort")
            assert aborted.code == 0, aborted.err
            assert "aborted, so the placement is as before (requested by " in aborted.out
            assert "--abort)" in aborted.out.replace("\n", " ")
            assert (mailbox.answer(name) or {})["state"] == "aborted"
            again = mooring("moves", folder, "--abort")
            assert again.code == 4
            assert "no list of moves is being carried out" in again.err
        finally:
            over.set()
            serving.join()
