"""`mooring moves`: the ordered moves from what runs now to a plan, and carrying out exactly those."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from mooring.cli.input.parsing import Parser, add_project
from mooring.cli.input.site_draining import known_problem, leave_or_return, step_line
from mooring.cli.output.terminal import Terminal
from mooring.controller.journal import Journal
from mooring.errors import EngineError, InputError, MooringError
from mooring.model.deployment.moves import Effect, MoveList
from mooring.model.placement.admission import require_all_queries
from mooring.model.placement.placement import FragmentSites
from mooring.model.placement.placement_file import read_placement
from mooring.quantity import factor_words, quantity
from mooring.spark.runs.found_run import find_run
from mooring.spark.runs.mailbox import this_asker
from mooring.spark.runs.run_client import MoveAsker
from mooring.spark.runs.system_clock import SystemClock

DESCRIPTION = (
    "Lists the moves from the running (or last) placement to PLAN.json, in order, with their predicted "
    "effect and pause. Without PLAN.json, lists the moves that the run proposes at the measured rates. "
    "--apply has the run carry out exactly that list. If a move fails or the list is aborted, the run "
    "takes back the moves already made. --leave SITE empties a site and keeps it empty until --return "
    "SITE."
)


def add_options(parser: Parser) -> None:
    add_project(parser)
    target = parser.add_mutually_exclusive_group()
    target.add_argument(
        "--to",
        type=Path,
        metavar="PLAN.json",
        help="placement to reach (default: the run's own proposal at the measured rates)",
    )
    target.add_argument("--rollback", action="store_true", help="undo the last applied list")
    target.add_argument("--abort", action="store_true", help="stop the current list and take back its moves")
    target.add_argument("--leave", metavar="SITE", help="empty a site and keep it empty, in later runs too")
    target.add_argument(
        "--return", metavar="SITE", dest="come_back", help="use a site again that is kept empty"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="with --leave: even if the other sites become overloaded or a fragment has to stop",
    )
    parser.add_argument("--apply", action="store_true", help="have the run carry out the list")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    clock = SystemClock()
    found = find_run(args.project, clock)
    if args.force and args.leave is None:
        raise InputError("found --force without --leave", field="--force", remedy="add --leave SITE")
    if args.leave is not None or args.come_back is not None:
        return leave_or_return(args, terminal, found, clock)
    if args.apply or args.abort:
        found.refuse_elsewhere("request moves")
    if args.abort and (args.apply or not found.runs):
        raise InputError(
            "there is nothing to apply"
            if args.apply
            else "the project does not run, so no list is being carried out",
            field="--abort",
            remedy="use --abort alone, while the run carries out a list",
        )
    if args.to is None and not args.rollback and not found.runs:
        raise InputError(
            "the project does not run, so it measures no rates and proposes no moves",
            field="--to",
            remedy="name a placement with --to, or start the project with `mooring run`",
        )
    asked_by = this_asker(" ".join(["mooring", *args.words]))
    problem, journal = known_problem(args.project, found), Journal(found.record, clock.now_s)
    asker = MoveAsker(problem, found.files, journal, clock, asked_by)
    if args.abort:
        return _abort(terminal, asker)
    wanted = _wanted(args, asker, asker.current())
    document = {"version": 1, "running": found.runs, **wanted.as_json(), "applied": None}
    terminal.print(_table(wanted))
    if not wanted.moves:
        terminal.print("nothing to move" if args.to or args.rollback else asker.why_nothing())
    if args.apply and wanted.moves:
        document["applied"] = _applied(args, terminal, asker, wanted)
    terminal.document(document)
    return 0


def _abort(terminal: Terminal, asker: MoveAsker) -> int:
    answer = asker.abort(lambda at, step: terminal.note(step_line(at, step)))
    if answer["state"] != "aborted":
        raise EngineError(f"not aborted: {answer.get('why', 'all moves were made already')}")
    terminal.document({"version": 1, "running": True, "aborted": answer})
    terminal.print(escape(str(answer["why"])))
    return 0


def _wanted(args: argparse.Namespace, asker: MoveAsker, start: FragmentSites) -> MoveList:
    if args.rollback:
        return asker.rollback(start)
    if args.to is not None:
        wanted = read_placement(args.to, asker.problem)
        require_all_queries(wanted, str(args.to))
        return asker.to(wanted, start)
    return asker.proposed(start)


def _applied(
    args: argparse.Namespace, terminal: Terminal, asker: MoveAsker, wanted: MoveList
) -> dict[str, object]:
    if asker.files.running_pid() is None:
        raise EngineError(
            "the project does not run, so the moves cannot be carried out",
            remedy="start it there with `mooring run PROJECT --placement PLAN.json`",
        )
    answer = asker.ask(wanted, lambda at, step: terminal.note(step_line(at, step)))
    if answer["state"] == "refused":
        _show_again(args, terminal, asker, FragmentSites(answer["placement"]))
        raise EngineError(f"refused: {answer['why']}", remedy="check the list above and repeat the command")
    if answer["state"] in ("failed", "aborted"):
        raise EngineError(str(answer["why"]))
    return answer


def _show_again(
    args: argparse.Namespace, terminal: Terminal, asker: MoveAsker, running: FragmentSites
) -> None:
    """The list from what runs now, where there is one."""
    where = ", ".join(f"{fragment} at {site}" for fragment, site in running.items())
    terminal.print(escape(f"running now: {where}"))
    with contextlib.suppress(MooringError):
        terminal.print(_table(_wanted(args, asker, running)))


def _table(wanted: MoveList) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    left = ("fragment", "from", "to")
    for column in ("", *left, "state", "pause", "feasible\nratio", "headroom", "busiest\nsite"):
        table.add_column(column, justify="left" if column in left else "right")
    table.add_row("", "now", "", "", "", "", *_effect(wanted.before), style="dim")
    for at, step in enumerate(wanted.steps, start=1):
        move = step.move
        table.add_row(
            str(at),
            escape(move.fragment),
            escape(move.from_site),
            escape(move.to_site),
            quantity(step.state_bytes, "B") if step.state_bytes else "",
            step.pause.words(),
            *_effect(step.after),
        )
    return table


def _effect(effect: Effect) -> tuple[str, str, str]:
    return (
        "" if effect.feasible_ratio is None else f"{effect.feasible_ratio:.3f}",
        factor_words(effect.headroom),
        f"{effect.max_utilisation:.0%}",
    )
