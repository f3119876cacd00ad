"""`mooring run`: place a pipeline over its sites, start it, show it, and report."""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.live import Live
from rich.markup import escape

from mooring.cli.input.files import read_placement, write_text
from mooring.cli.input.needs_spark import require_spark
from mooring.cli.input.parsing import Parser, add_project, settings
from mooring.cli.input.stop_signals import StopSignals, stop_signals
from mooring.cli.output.terminal import Terminal, plain
from mooring.errors import EngineError, InputError, MooringError

if TYPE_CHECKING:
    from mooring.controller.journal import Journal
    from mooring.placement.placement import Placement
    from mooring.problem.problem import Problem
    from mooring.spark.running.engine import SparkEngine
    from mooring.spark.running.project_run import PreparedRun
    from mooring.spark.running.run_report import RunRecord
    from mooring.spark.running.snapshot import Snapshot

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_LINE_EVERY_S = 10.0


DESCRIPTION = (
    "Places a pipeline (a project folder with spark-pipeline.yml and mooring.yml), runs it until Ctrl-C "
    "or for a while, and reports. Running again resumes where it stopped."
)


def add_options(parser: Parser) -> None:
    add_project(parser)
    parser.add_argument(
        "--policy", metavar="NAME", help="see `mooring policies` (default: mooring.yml's, rod)"
    )
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="a policy parameter")
    parser.add_argument(
        "--placement", type=Path, metavar="PLAN.json", help="run this plan instead of a new one"
    )
    parser.add_argument(
        "--for", type=duration, metavar="TIME", dest="seconds", help="how long: 90, 90s, 2m, 1h"
    )
    parser.add_argument(
        "--class-archive",
        action="store_true",
        help="build an archive in the user's cache: sites start faster",
    )
    parser.add_argument(
        "--silence",
        type=duration,
        metavar="TIME",
        default=20.0,
        help="a site that does not answer for so long counts as lost (default 20s)",
    )
    parser.add_argument("--detach", action="store_true", help="run in the background")
    parser.add_argument("--fresh", action="store_true", help="forget checkpoints and channels, start over")
    parser.add_argument(
        "--accept-edits", action="store_true", help="resume checkpoints of flows that were edited since"
    )


def _ensure_class_archive(terminal: Terminal) -> None:
    from mooring.spark.sites.class_archive import build_archive, usable_archive
    from mooring.spark.sites.java import find_java

    java = find_java()
    if usable_archive(java) is None:
        with terminal.progress("building the class archive"):
            path = build_archive(java)
        terminal.note(f"built {path}")


def duration(text: str) -> float:
    """Seconds of `90`, `90s`, `1.5m`, `2h`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"found {text[:40]!r}, expected a time such as 90s, 2m or 1h")
    return float(match[1]) * _UNITS_S[match[2]]


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    require_spark(file=args.project)
    from mooring.spark.pipeline.project import load_project
    from mooring.spark.running.project_run import prepared_run

    project = load_project(args.project)
    if args.detach:
        return _detach(args, terminal)
    if args.class_archive:
        _ensure_class_archive(terminal)
    with stop_signals() as stopping:
        terminal.print(f"[dim]starting the sites of {escape(project.spec.name)}[/dim]")
        with prepared_run(project, fresh=args.fresh) as prepared:
            record = _run_prepared(args, terminal, prepared, stopping)
    terminal.document(plain(record.as_json()))  # type: ignore[arg-type]
    terminal.print(f"{record.ended}; report in {escape(str(project.work_folder / 'report.html'))}")
    troubles = record.snapshots[-1].troubles if record.snapshots else {}
    for name, what in troubles.items():
        terminal.note(f"at the end, {name}: {what}")
    return EngineError.exit_code if troubles else 0


def _run_prepared(
    args: argparse.Namespace, terminal: Terminal, prepared: PreparedRun, stopping: StopSignals
) -> RunRecord:
    from mooring.cli.verbs.run_care import cared_for, proposals
    from mooring.controller.journal import Journal
    from mooring.spark.running.run_report import write_report
    from mooring.spark.running.watching import look, watch

    for fragment in prepared.ended_leftovers:
        terminal.note(f"ended {fragment}, which an earlier run had left running")
    record, placement = _planned(args, terminal, prepared)
    show = _viewer(terminal, prepared.problem, prepared)
    try:
        with prepared.engine(accept_edits=args.accept_edits) as engine:
            engine.silence_s = args.silence
            prepared.deploy(engine, placement)
            record.sites = {name: site.note for name, site in prepared.sites.items()}
            remarks = proposals(prepared, terminal)
            journal = Journal(prepared.project.work_folder, time.time)
            desk = _move_desk(prepared, engine, record, journal)
            stopping.gentle = True
            with show.live(), cared_for(args, terminal, prepared, engine, record, journal) as carer:
                watch(
                    engine,
                    record,
                    prepared.files,
                    over=lambda passed: stopping.asked or passed >= (args.seconds or float("inf")),
                    show=show,
                    carer=carer,
                    serve=desk,
                    remarks=remarks,
                )
            last = carer.troubles()
            look(engine, record, prepared.files, lambda snapshot: None, last, remarks)
            engine.stop_all(patience_s=2 * prepared.project.settings.trigger_s + 5)
            engine.trim()
        record.ended = f"stopped by {stopping.name}" if stopping.asked else "stopped after the time asked for"
    except MooringError as failure:
        record.ended = f"failed: {failure}"
        raise
    finally:
        write_report(record, prepared.project.work_folder)
    return record


def _planned(
    args: argparse.Namespace, terminal: Terminal, prepared: PreparedRun
) -> tuple[RunRecord, dict[str, str]]:
    from mooring.cli.output.tables import metric_lines, sentences, site_table
    from mooring.load.build import build_load_model
    from mooring.run import evaluate, plan
    from mooring.spark.pipeline.statistics_used import statistics_notes
    from mooring.spark.running.operation_statistics import operation_statistics
    from mooring.spark.running.run_report import RunRecord

    problem, policy = prepared.problem, args.policy or prepared.project.settings.policy
    placement: Placement
    if (resumed := _resumed(args, terminal, prepared)) is not None:
        placement, policy, why = *resumed, []
        metrics = evaluate(problem, placement)
    elif args.placement is not None:
        placement, policy = read_placement(args.placement, problem), f"plan {args.placement}"
        metrics, why = evaluate(problem, placement), ["given by the user"]
    else:
        made = plan(problem, policy, seed=args.seed, settings=settings(args.set))
        placement, metrics, why = made.placement, made.metrics, list(made.explanation.sentences)
    notes = statistics_notes(prepared.layout)
    terminal.print(
        f"[bold]{escape(prepared.project.spec.name)}[/bold] placed by [bold]{escape(policy)}[/bold]"
    )
    terminal.print(site_table(build_load_model(problem), placement))
    terminal.print(metric_lines(metrics))
    terminal.print(sentences(why))
    for note in notes:
        terminal.print(f"[yellow]note:[/yellow] {escape(note)}")
    record = RunRecord(
        prepared.project.spec.name,
        policy,
        placement.as_dict(),
        why,
        dict(metrics),
        {},
        notes=notes,
        operation=operation_statistics(prepared.layout, problem),
    )
    return record, placement.as_dict()


def _resumed(
    args: argparse.Namespace, terminal: Terminal, prepared: PreparedRun
) -> tuple[Placement, str] | None:
    """The placement that the last run had, or was moving to, unless another was asked for or it no longer
    fits.
    """
    from mooring.controller.apply import resume, settle
    from mooring.controller.journal import Journal
    from mooring.deployment.moves import fragment_placement
    from mooring.load.build import build_load_model
    from mooring.placement.checker import violations

    if args.policy or args.set or args.placement is not None or args.fresh:
        return None
    journal = Journal(prepared.project.work_folder, time.time)
    found = resume(journal)
    if found is None:
        return None
    try:
        placement = fragment_placement(prepared.problem, found.placement)
        wrong = violations(prepared.problem, build_load_model(prepared.problem), placement)
    except InputError as misfit:
        wrong = [misfit.message]
    if wrong:
        terminal.note(f"planning anew: the last placement no longer fits ({wrong[0]})")
        return None
    settle(journal)
    return placement, f"the journal, {found.why}"


def _move_desk(
    prepared: PreparedRun, engine: SparkEngine, record: RunRecord, journal: Journal
) -> Callable[[], bool]:
    """Notes what runs where, and answers requests for moves while it runs."""
    from mooring.controller.move_desk import MoveDesk
    from mooring.deployment.moves import fragment_placement
    from mooring.problem.write import problem_to_json
    from mooring.spark.running.mailbox import Mailbox

    problem, folder = prepared.problem, prepared.project.work_folder
    write_text(folder / "problem.json", problem_to_json(problem))
    journal.note_placement({name: made.site for name, made in engine.running.items()}, record.policy)

    def moved(running: dict[str, str]) -> None:
        prepared.files.note_sessions(list(engine.running.values()), prepared.sites)
        if running.keys() == set(problem.fragment_names):
            record.placement = fragment_placement(problem, running).as_dict()

    return MoveDesk(engine, problem, journal, Mailbox(folder), moved)


class _Viewer:
    """Draws a live view where there is a terminal, and a line now and then where there is none."""

    def __init__(self, terminal: Terminal, headrooms: Callable[[Snapshot], dict[str, float | None]]) -> None:
        self._terminal = terminal
        self._headrooms = headrooms
        self._live: Live | None = None
        self._last_line_s = -_LINE_EVERY_S

    @contextlib.contextmanager
    def live(self) -> Iterator[None]:
        if self._terminal.as_json or not self._terminal.out.is_terminal:
            yield
            return
        with Live(console=self._terminal.out, auto_refresh=False) as self._live:
            yield

    def __call__(self, snapshot: Snapshot) -> None:
        from mooring.cli.output.live_view import one_line, run_view

        if self._live is not None:
            self._live.update(run_view(snapshot, self._headrooms(snapshot)), refresh=True)
        elif snapshot.since_start_s - self._last_line_s >= _LINE_EVERY_S:
            self._last_line_s = snapshot.since_start_s
            rooms = self._headrooms(snapshot)
            shown = ", ".join(f"{name} x {room:.1f}" for name, room in rooms.items() if room is not None)
            self._terminal.print(escape(one_line(snapshot) + (f"; headroom {shown}" if shown else "")))


def _viewer(terminal: Terminal, problem: Problem, prepared: PreparedRun) -> _Viewer:
    from mooring.cli.output.live_view import site_headrooms
    from mooring.load.build import build_load_model

    model = build_load_model(problem)
    fragments = {name: f for f, name in enumerate(problem.fragment_names)}
    streams = prepared.layout.entries
    return _Viewer(terminal, lambda snapshot: site_headrooms(model, fragments, streams, snapshot))


def _detach(args: argparse.Namespace, terminal: Terminal) -> int:
    """Start the same command in the background and wait until it runs or has failed."""
    from mooring.spark.pipeline.project import load_project
    from mooring.spark.running.run_files import RunFiles

    folder = load_project(args.project).work_folder
    files = RunFiles(folder)
    if (pid := files.running_pid()) is not None:
        raise EngineError(f"the project already runs, as process {pid}", remedy="`mooring stop` ends it")
    folder.mkdir(exist_ok=True)
    files.forget_status()
    log = folder / "run.log"
    with log.open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "mooring", *_without_detach(args)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    while files.read_status() is None:
        if child.poll() is not None:
            raise EngineError(
                f"the run ended at once: {log.read_text(errors='replace').strip()}", remedy=f"see {log}"
            )
        time.sleep(0.1)
    terminal.document({"version": 1, "pid": child.pid, "log": str(log)})
    terminal.print(f"runs in the background as process {child.pid}; log in {escape(str(log))}")
    return 0


def _without_detach(args: argparse.Namespace) -> list[str]:
    words = ["run", str(args.project.resolve()), "--seed", str(args.seed)]
    words += ["--policy", args.policy] if args.policy else []
    words += [word for pair in args.set for word in ("--set", pair)]
    words += ["--placement", str(args.placement.resolve())] if args.placement else []
    words += ["--for", f"{args.seconds:g}"] if args.seconds else []
    words += ["--silence", f"{args.silence:g}"]
    words += ["--fresh"] if args.fresh else []
    words += ["--accept-edits"] if args.accept_edits else []
    return words
