"""`mooring moves`: the ordered moves from what runs now to a plan, and carrying out exactly those."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from mooring.cli.input.files import read_placement
from mooring.cli.input.needs_spark import require_spark
from mooring.cli.input.parsing import Parser, add_project
from mooring.cli.input.problem_source import load_problem
from mooring.cli.output.tables import quantity
from mooring.cli.output.terminal import Terminal
from mooring.errors import EngineError, InputError, MooringError
from mooring.problem.problem import Problem

if TYPE_CHECKING:
    from mooring.deployment.moves import Effect, Move, MoveList
    from mooring.spark.running.run_files import RunFiles

_ASK_S = 0.1
_ACCEPT_S = 30.0
"""A runner that is alive takes a request within a look; one that hangs for this long does not."""


DESCRIPTION = (
    "Lists the moves that lead from the placement that runs (or ran last) to PLAN.json, in order, with "
    "their predicted effect and pause; without PLAN.json, those that the running process proposes at the "
    "rates it measures, if any. With --apply the process that runs the project carries out "
    "exactly that list; should a move fail, those done are taken back."
)


def add_options(parser: Parser) -> None:
    add_project(parser)
    target = parser.add_mutually_exclusive_group()
    target.add_argument(
        "--to",
        type=Path,
        metavar="PLAN.json",
        help="the placement to reach (default: what the running process proposes at the rates it measures)",
    )
    target.add_argument("--rollback", action="store_true", help="undo the last list that was applied")
    parser.add_argument("--apply", action="store_true", help="have the running process carry it out")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    require_spark(file=args.project)
    from mooring.spark.pipeline.project import load_project
    from mooring.spark.running.run_files import RunFiles

    folder = load_project(args.project).work_folder
    files = RunFiles(folder)
    pid, status = files.running_pid(), files.read_status()
    if args.to is None and not args.rollback and pid is None:
        raise InputError(
            "the project does not run, so there are no measured rates to propose moves from",
            field="--to",
            remedy="give the placement to reach, or start it with `mooring run`",
        )
    current = _current(folder, None if pid is None else status)
    problem = _problem(args.project, folder)
    made = _list(args, problem, current, folder, status)
    document: dict[str, object] = {
        "version": 1,
        "running": pid is not None,
        **made.as_json(),
        "applied": None,
    }
    terminal.print(_table(made))
    if not made.moves:
        terminal.print("nothing to move" if args.to or args.rollback else _why_nothing(status))
    if args.apply and made.moves:
        if pid is None:
            raise EngineError(
                "the project does not run, so nobody can carry out the moves",
                remedy="`mooring run PROJECT --placement PLAN.json` starts it there",
            )
        answer = _ask(made, folder, files, terminal)
        if answer["state"] == "refused":
            _show_again(args, terminal, problem, answer["placement"], folder)
            raise EngineError(f"refused: {answer['why']}", remedy="look at the list above and ask again")
        if answer["state"] == "failed":
            raise EngineError(str(answer["why"]))
        _await_status(files, answer["placement"])
        document["applied"] = answer
    terminal.document(document)
    return 0


def _await_status(files: RunFiles, placement: Mapping[str, str]) -> None:
    """Until the status tells what the answer does, so that whoever asks next is not shown what was."""
    deadline = time.monotonic() + _ACCEPT_S
    while files.running_pid() is not None and time.monotonic() < deadline:
        fragments = (files.read_status() or {}).get("fragments", {})
        if {name: fragment["site"] for name, fragment in fragments.items()} == placement:
            return
        time.sleep(_ASK_S)


def _problem(project: Path, folder: Path) -> Problem:
    """As the runner last understood it; read anew by Spark where it never ran."""
    known = folder / "problem.json"
    return Problem.load(known) if known.exists() else load_problem(project)


def _current(folder: Path, status: Mapping[str, Any] | None) -> dict[str, str]:
    """Fragment -> site: of the running process, or where the next run would resume."""
    from mooring.controller.apply import resume
    from mooring.controller.journal import Journal

    if status is not None:
        return {name: fragment["site"] for name, fragment in status["fragments"].items()}
    found = resume(Journal(folder, time.time))
    if found is None:
        raise InputError("the project never ran, so there is nothing to move from", remedy="`mooring run` it")
    return found.placement


def _list(
    args: argparse.Namespace,
    problem: Problem,
    current: dict[str, str],
    folder: Path,
    status: Mapping[str, Any] | None,
) -> MoveList:
    from mooring.controller.apply import inverse_of_last
    from mooring.controller.journal import Journal
    from mooring.deployment.moves import Figures, MoveTimes, by_fragment, described_moves, ordered_moves

    measured = {
        name: float(fragment["state_bytes"])
        for name, fragment in (status or {}).get("fragments", {}).items()
        if fragment.get("state_bytes")
    }
    journal = Journal(folder, time.time)
    figures = Figures(MoveTimes().fitted(journal.past_moves()), measured)
    rates = (status or {}).get("stream_rates") or {}
    # At no rate at all every placement has room without end: the rates of the project tell more then.
    if set(rates) == set(problem.stream_index) and any(rates.values()):
        problem = problem.with_rates([rates[stream.name] for stream in problem.streams])
    if args.to is None and not args.rollback:
        return described_moves(problem, current, _proposed(status), figures)
    if not args.rollback:
        return ordered_moves(problem, current, by_fragment(read_placement(args.to, problem)), figures)
    back = inverse_of_last(journal)
    if not back:
        raise InputError("found no list of moves that was applied and not taken back", field="--rollback")
    return described_moves(problem, current, back, figures, within_limits=False)


def _why_nothing(status: Mapping[str, Any] | None) -> str:
    proposal = (status or {}).get("proposal")
    if proposal is None:
        return "nothing is proposed while not everything runs"
    room = proposal["headroom"]
    shown = "any" if room is None else f"{room:.2f}"
    return f"nothing is proposed: at the measured rates the headroom is x {shown}"


def _proposed(status: Mapping[str, Any] | None) -> list[Move]:
    """What the runner proposed at its last look."""
    from mooring.deployment.moves import Move

    proposal = (status or {}).get("proposal") or {"moves": []}
    return [Move(move["fragment"], move["from"], move["to"]) for move in proposal["moves"]]


def _show_again(
    args: argparse.Namespace, terminal: Terminal, problem: Problem, running: dict[str, str], folder: Path
) -> None:
    """The list from what runs now, where there is one."""
    where = ", ".join(f"{fragment} at {site}" for fragment, site in running.items())
    terminal.print(escape(f"running now: {where}"))
    with contextlib.suppress(MooringError):
        terminal.print(_table(_list(args, problem, running, folder, None)))


def _ask(made: MoveList, folder: Path, files: RunFiles, terminal: Terminal) -> dict[str, Any]:
    from mooring.spark.running.mailbox import Mailbox

    mailbox = Mailbox(folder)
    steps = [(move.fragment, move.from_site, move.to_site) for move in made.moves]
    name = mailbox.ask(dict(made.old), steps)
    try:
        return _wait(mailbox, name, files, terminal)
    finally:
        mailbox.withdraw(name)


def _wait(mailbox: Any, name: str, files: RunFiles, terminal: Terminal) -> dict[str, Any]:
    """Show each step as it is reached, until the last."""
    shown: set[tuple[int, str]] = set()
    deadline = time.monotonic() + _ACCEPT_S
    while True:
        answer: dict[str, Any] | None = mailbox.answer(name)
        for at, step in enumerate(answer["steps"] if answer else ()):
            if (at, step["reached"]) not in shown:
                shown.add((at, step["reached"]))
                terminal.note(_step_line(at, step))
        if answer is not None and answer["state"] != "running":
            return answer
        if files.running_pid() is None:
            raise EngineError(
                "the running process ended meanwhile", remedy="`mooring run` again: it finishes or goes back"
            )
        if answer is None and time.monotonic() > deadline:
            raise EngineError(f"the running process took no notice within {_ACCEPT_S:g} s; nothing was moved")
        time.sleep(_ASK_S)


def _step_line(at: int, step: Mapping[str, Any]) -> str:
    pause = f" after {step['pause_s']:.2f} s" if "pause_s" in step else ""
    return f"{at + 1}. {step['fragment']}: {step['from']} -> {step['to']}: {step['reached']}{pause}"


def _table(made: MoveList) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in (
        "",
        "fragment",
        "from",
        "to",
        "state",
        "pause",
        "feasible\nratio",
        "headroom",
        "busiest\nsite",
    ):
        table.add_column(column, justify="left" if column in ("fragment", "from", "to") else "right")
    table.add_row("", "now", "", "", "", "", *_effect(made.before), style="dim")
    for at, step in enumerate(made.steps, start=1):
        move = step.move
        table.add_row(
            str(at),
            escape(move.fragment),
            escape(move.from_site),
            escape(move.to_site),
            quantity(step.state_bytes, "B") if step.state_bytes else "",
            f"~{step.pause_s:.1f} s",
            *_effect(step.after),
        )
    return table


def _effect(effect: Effect) -> tuple[str, str, str]:
    return (
        "" if effect.feasible_ratio is None else f"{effect.feasible_ratio:.3f}",
        "" if effect.headroom is None else f"{effect.headroom:.2f} x",
        f"{effect.max_utilisation:.0%}",
    )
