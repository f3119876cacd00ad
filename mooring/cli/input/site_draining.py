"""`mooring moves --leave` and `--return`: asked of the process that runs, or recorded for the next run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.markup import escape

from mooring.cli.input.problem_source import load_problem
from mooring.cli.output.terminal import Terminal
from mooring.contracts.clock import Clock
from mooring.contracts.picture import picture_of
from mooring.controller.drained_sites import emptying
from mooring.controller.initial_placement import Wish
from mooring.controller.journal import Journal
from mooring.controller.move_list import resume
from mooring.errors import EngineError, InfeasibleError, InputError
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.found_run import FoundRun
from mooring.spark.runs.mailbox import this_asker
from mooring.spark.runs.run_client import MoveAsker, Step
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.runs.run_lock import held_project
from mooring.spark.runs.spark_run import PROBLEM_FILE_NAME


def leave_or_return(args: argparse.Namespace, terminal: Terminal, found: FoundRun, clock: Clock) -> int:
    """Of `args.leave` or `args.come_back`."""
    if args.apply:
        raise InputError(
            "found --apply beside --leave or --return, which apply by themselves",
            field="--apply",
            remedy="leave --apply out",
        )
    found.refuse_elsewhere("request it")
    problem, asked_by = known_problem(args.project, found), this_asker(" ".join(["mooring", *args.words]))
    site = args.leave or args.come_back
    if site not in problem.site_index:
        raise InputError(
            f"found no site {site!r}, expected one of {', '.join(problem.site_index)}",
            field="--return" if args.leave is None else "--leave",
        )
    answer = None
    if found.runs:
        asker = MoveAsker(problem, found.files, Journal(found.record, clock.now_s), clock, asked_by)
        answer = _asked(args, terminal, asker)
    else:
        _recorded(args, problem, asked_by, clock)
    if args.leave is not None:
        done = (
            f"{site} is empty and is kept empty until `mooring moves --return {site}`"
            if found.runs
            else f"the next run leaves {site} empty"
        )
    else:
        done = f"{site} is used again" if found.runs else f"the next run uses {site} again"
    terminal.document(
        {
            "version": 1,
            "running": found.runs,
            "left": args.leave,
            "returned": args.come_back,
            "answer": answer,
        }
    )
    terminal.print(escape(done))
    return 0


def known_problem(project: Path, found: FoundRun) -> Problem:
    """As the runner last understood it; read anew by Spark where it never ran."""
    known = found.files.folder / PROBLEM_FILE_NAME
    return Problem.load(known) if known.exists() else load_problem(project)


def step_line(at: int, step: Step) -> str:
    """A move as far as it is."""
    pause = f" after {step['pause_s']:.2f} s" if "pause_s" in step else ""
    return f"{at + 1}. {step['fragment']}: {step['from']} -> {step['to']}: {step['reached']}{pause}"


def _asked(args: argparse.Namespace, terminal: Terminal, asker: MoveAsker) -> dict[str, Any]:
    def told(at: int, step: Step) -> None:
        terminal.note(step_line(at, step))

    if args.leave is not None:
        answer = asker.leave(args.leave, told, force=args.force)
    else:
        answer = asker.come_back(args.come_back, told)
    if answer["state"] == "refused":
        raise InfeasibleError(f"refused: {answer['why']}")
    if answer["state"] != "done":
        raise EngineError(str(answer["why"]))
    return answer


def _recorded(args: argparse.Namespace, problem: Problem, asked_by: str, clock: Clock) -> None:
    """For the next run, as the owner of the project's record for a moment."""
    project = load_project(args.project)
    with held_project(project, RunFiles(project.work_folder)) as hold:
        journal = Journal(hold.owned.folder, clock.now_s)
        left = journal.left_sites()
        if args.come_back is not None:
            if args.come_back not in left:
                raise InputError(f"the site {args.come_back!r} is not kept empty", field="--return")
            journal.note_returned(args.come_back, asked_by)
            return
        if (last := resume(journal)) is not None:
            placement = Placement.from_fragments(problem, last.placement)
            replan = Wish(project.settings.policy).replan
            shut = set(left) - {args.leave}
            emptying(
                picture_of(problem, placement), last.placement, args.leave, shut, replan, force=args.force
            )
        journal.note_left(args.leave, asked_by)
