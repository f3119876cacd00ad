"""`mooring run`: place a pipeline over its sites, start it, show it, and report."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from mooring.algorithms.catalogue import HOSTED, Deciding
from mooring.cli.input.child_process import add_tls, check_page, page_beside
from mooring.cli.input.given_algorithm import (
    ADAPT_SET_HELP,
    DECIDER_HELP,
    POLICY_HELP,
    given_decider,
    given_policy,
)
from mooring.cli.input.given_guards import add_guards, given_guards
from mooring.cli.input.parsing import Parser, add_project, duration, names, settings
from mooring.cli.input.stop_signals import StopSignals, stop_signals
from mooring.cli.output.graph_tree import GraphTree
from mooring.cli.output.run_viewer import RunViewer
from mooring.cli.output.tables import sentences, site_table
from mooring.cli.output.terminal import Terminal
from mooring.cli.output.update_table import update_table
from mooring.contracts.decider import Decider
from mooring.controller.initial_placement import Wish
from mooring.controller.journal import Journal
from mooring.controller.parts import is_aside
from mooring.controller.update import UPDATE_PACE, Update
from mooring.errors import EngineError, InputError
from mooring.model.load.build import build_load_model
from mooring.model.placement.placement_file import read_placement
from mooring.model.problem.problem import Problem
from mooring.plain_json import plain
from mooring.service.view.frozen_page import frozen_page
from mooring.spark.engine.engine import EngineOptions
from mooring.spark.ownership.owner import LEASE_S, SHORTEST_LEASE_S
from mooring.spark.pipeline.project import Project, load_project
from mooring.spark.pipeline.project_edits import AcceptedEdits
from mooring.spark.runs.background_run import begin_in_background
from mooring.spark.runs.project_run import PreparedRun, prepared_run
from mooring.spark.runs.record.run_report import RunRecord
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.runs.run_lock import GivenUpError, HoldOptions
from mooring.spark.runs.spark_run import SparkRun
from mooring.spark.runs.update_choice import UpdateChoice, told_of_readers, update_order
from mooring.spark.sites.class_archive import build_archive, usable_archive
from mooring.spark.sites.java import find_java

DESCRIPTION = (
    "Places a pipeline (a project folder with spark-pipeline.yml and mooring.yml) on its sites and runs "
    "it until Ctrl-C. --for limits the time; --once ends after one update. At the end writes a report. "
    "The next run resumes from the checkpoints."
)


def add_options(parser: Parser) -> None:
    add_project(parser)
    parser.add_argument(
        "--policy", metavar="NAME", help=f"{POLICY_HELP} (default: `policy` in mooring.yml, else rod)"
    )
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="parameter of the policy, repeatable"
    )
    parser.add_argument(
        "--placement", type=Path, metavar="PLAN.json", help="start with this plan instead of a new one"
    )
    parser.add_argument(
        "--for",
        type=duration,
        metavar="TIME",
        dest="seconds",
        help="time to run, such as 90s, 2m or 1h (default: until Ctrl-C)",
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="run one update and end: read all available input, in the order of the graph",
    )
    parser.add_argument(
        "--refresh",
        metavar="TABLE,...",
        type=names,
        action="extend",
        default=[],
        help="with --once: update these tables only",
    )
    parser.add_argument(
        "--full-refresh",
        metavar="TABLE,...",
        type=names,
        action="extend",
        default=[],
        help="with --once: delete the rows and progress of these tables and compute them again",
    )
    parser.add_argument(
        "--full-refresh-all", action="store_true", help="with --once: a full refresh of all tables and sinks"
    )
    parser.add_argument(
        "--class-archive",
        action="store_true",
        help="build a class archive in the user's cache, so that sites start faster",
    )
    parser.add_argument(
        "--silence",
        type=duration,
        metavar="TIME",
        default=20.0,
        help="a site that does not answer for TIME counts as lost (default 20s)",
    )
    parser.add_argument(
        "--adapt",
        metavar="NAME",
        default="headroom",
        help=f"decider that proposes moves: {DECIDER_HELP} (default headroom)",
    )
    parser.add_argument(
        "--act",
        choices=("propose", "apply"),
        default="propose",
        help="propose: show proposed moves; apply: carry them out within the guards (default propose)",
    )
    parser.add_argument(
        "--adapt-set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help=ADAPT_SET_HELP,
    )
    add_guards(parser)
    parser.add_argument(
        "--serve",
        metavar="[HOST:]PORT",
        nargs="?",
        const="127.0.0.1:0",
        help="serve a web page and a REST interface for the run (default: a free port on loopback)",
    )
    add_tls(parser)
    parser.add_argument("--detach", action="store_true", help="run in the background")
    parser.add_argument(
        "--standby",
        action="store_true",
        help="if the project runs already, wait and take over when it ends or its lease expires",
    )
    parser.add_argument(
        "--lease",
        type=duration,
        metavar="TIME",
        default=LEASE_S,
        help=(
            "duration of the lease: a standby takes over when the run has not renewed it for TIME "
            "(default 20s)"
        ),
    )
    parser.add_argument("--fresh", action="store_true", help="delete checkpoints and channels and start over")
    parser.add_argument(
        "--accept-edits", action="store_true", help="resume from the checkpoints of edited flows"
    )
    parser.add_argument(
        "--drop",
        metavar="NAME",
        action="append",
        default=[],
        help="delete what is stored of a removed flow",
    )
    parser.add_argument(
        "--join-late",
        metavar="NAME",
        action="append",
        default=[],
        help="start a new flow with the rows of its input that are still stored",
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    project = load_project(args.project)
    if args.standby and args.fresh:
        raise InputError(
            "found --standby with --fresh, which would delete the checkpoints and channels of the other run",
            field="--standby",
            remedy="keep one of the two",
        )
    choice = _choice(args)
    _check_page(args)
    _check_policy(args, project)
    decider = _decider(args, project)
    if args.lease < SHORTEST_LEASE_S:
        raise InputError(f"found {args.lease:g} s, expected at least {SHORTEST_LEASE_S:g} s", field="--lease")
    if args.detach:
        words = [word for word in args.words if word != "--detach"]
        files, serves = RunFiles(project.work_folder), args.serve is not None
        return start_in_background(files, words, terminal, standby=args.standby, serves=serves)
    if args.class_archive:
        _ensure_class_archive(terminal)
    with stop_signals() as stopping:
        stopping.gentle = args.standby  # it waits, and looks between two waits whether it is to end
        holding = HoldOptions(args.standby, args.lease, terminal.note, lambda: stopping.asked)
        accepted = AcceptedEdits(tuple(args.drop), tuple(args.join_late))
        if not args.standby:
            terminal.print(f"[dim]starting the sites of {escape(project.spec.name)}[/dim]")
        try:
            with prepared_run(
                project,
                fresh=args.fresh,
                accepted=accepted,
                holding=holding,
                left=_left_sites,
                anew=lambda layout: () if choice is None else update_order(layout, choice).anew,
            ) as prepared:
                record = _run_prepared(args, terminal, prepared, stopping, choice, decider)
        except GivenUpError as ended:
            terminal.document({"version": 1, "ended": ended.message})
            terminal.print(ended.message)
            return 0
    return _reported(terminal, project, record)


def _run_prepared(
    args: argparse.Namespace,
    terminal: Terminal,
    prepared: PreparedRun,
    stopping: StopSignals,
    choice: UpdateChoice | None,
    decider: Decider,
) -> RunRecord:
    for fragment in prepared.ended_leftovers:
        terminal.note(f"ended {fragment}, which an earlier run left running")
    for note in [*prepared.gone_back, *prepared.edits.notes, *prepared.results.notes]:
        terminal.note(note)
    order = None if choice is None else update_order(prepared.layout, choice)
    for note in [] if order is None else told_of_readers(prepared.layout, order):
        terminal.note(note)
    wish = _wish(args, prepared)
    run = SparkRun(
        prepared,
        wish,
        say=lambda line: terminal.print(escape(line)),
        note=terminal.note,
        update=order,
        decider=decider,
        machines=args.adapt if args.adapt in HOSTED else "",
        act=args.act,
        guards=given_guards(args),
    )
    run.frame = lambda record, more: _report_page(prepared, run.problem, record, more)
    _show_beginning(terminal, run)
    options = EngineOptions(args.accept_edits, args.silence)
    with run.started(options, None if order is None else UPDATE_PACE) as (session, book):
        stopping.gentle = True
        viewer = RunViewer(
            terminal,
            book,
            f"mooring moves {prepared.project.shown} --apply",
            _where(prepared.project),
        )
        session.watchers.append(viewer.show)
        update = None if order is None else Update(session, book.engine, order)
        book.update = None if update is None else update.as_json
        with viewer.live(), _page(args, prepared.project, terminal):
            session.run(
                lambda passed: (
                    stopping.asked
                    or (update is not None and update.is_over)
                    or passed >= (args.seconds or float("inf"))
                )
            )
    asked = f"stopped by {stopping.name}" if stopping.asked else "stopped after the time of --for"
    if update is not None and update.is_over:
        left = len(update.unreached())
        asked = f"{left} of {len(update.order.chosen)} are not up to date" if left else "up to date"
    run.end(asked)
    return run.record


def _report_page(prepared: PreparedRun, problem: Problem, record: RunRecord, more: str) -> str:
    """What the page showed at the end, frozen."""
    status = {
        "pipeline": record.pipeline,
        "policy": record.policy,
        "placement": dict(record.placement),
        **(prepared.files.read_status() or {}),
        **record.snapshots[-1].as_json(),
    }
    records = Journal(prepared.hold.owned.folder, prepared.clock.now_s).records()
    return frozen_page(problem, status, record.snapshots, records, record.ended, more)


def _page(
    args: argparse.Namespace, project: Project, terminal: Terminal
) -> contextlib.AbstractContextManager[None]:
    """The page beside the run, where it is asked for."""
    if args.serve is None:
        return contextlib.nullcontext()
    return page_beside(project.spec_file, args.serve, args.tls, lambda line: terminal.note(line))


def _check_page(args: argparse.Namespace) -> None:
    """What is wrong with how the page is asked for is said before sites are started."""
    if args.serve is not None:
        check_page(args.serve, args.tls)
    elif args.tls is not None:
        raise InputError("found --tls without --serve", field="--tls", remedy="give --serve too")


def _left_sites(record: Path) -> list[str]:
    return list(Journal(record, lambda: 0.0).left_sites())


def _choice(args: argparse.Namespace) -> UpdateChoice | None:
    """What an update is to do; None: run without end."""
    if args.once:
        return UpdateChoice(tuple(args.refresh), tuple(args.full_refresh), args.full_refresh_all)
    given = {
        "--refresh": args.refresh,
        "--full-refresh": args.full_refresh,
        "--full-refresh-all": args.full_refresh_all,
    }
    for option, value in given.items():
        if value:
            raise InputError(
                f"found {option} without --once; a continuous run keeps all tables up to date",
                field=option,
                remedy="add --once",
            )
    return None


def _check_policy(args: argparse.Namespace, project: Project) -> None:
    """What is wrong with it is said before sites are started."""
    given_policy(args.policy or project.settings.policy, settings(args.set))


def _decider(args: argparse.Namespace, project: Project) -> Decider:
    own = project.settings
    asked = Deciding(
        args.policy or own.policy, settings(args.adapt_set, "--adapt-set"), args.seed, own.trigger_s
    )
    return given_decider(args.adapt, asked, "--adapt-set")


def _wish(args: argparse.Namespace, prepared: PreparedRun) -> Wish:
    file = args.placement
    return Wish(
        default_policy=prepared.project.settings.policy,
        policy=args.policy,
        settings=settings(args.set),
        placement=None if file is None else lambda problem: read_placement(file, problem),
        placement_name=f"plan {file}",
        seed=args.seed,
        fresh=args.fresh,
    )


def _show_beginning(terminal: Terminal, run: SparkRun) -> None:
    name, begun = run.prepared.project.spec.name, run.beginning
    terminal.print(f"[bold]{escape(name)}[/bold] placed by [bold]{escape(begun.policy)}[/bold]")
    problem = run.prepared.problem
    terminal.print(GraphTree(problem, sites=begun.placement.by_fragment()).build())
    terminal.print(site_table(build_load_model(problem), begun.placement))
    if run.update is None:  # how far rates may grow says little of an update, which takes what there is
        terminal.print(sentences(run.record.explanation))
    for note in run.record.notes:
        terminal.print(f"[yellow]note:[/yellow] {escape(note)}")


def _reported(terminal: Terminal, project: Project, record: RunRecord) -> int:
    terminal.document(plain(record.as_json()))  # type: ignore[arg-type]
    terminal.print(f"{record.ended}; report in {escape(str(project.work_folder / 'report.html'))}")
    terminal.print(escape(_where(project)))
    troubles = dict(record.snapshots[-1].troubles) if record.snapshots else {}
    if record.update is not None:
        terminal.print(update_table(record.update))
        fragments = record.update["fragments"]
        troubles |= {name: each["why"] for name, each in fragments.items() if each["state"] != "done"}
    for name, what in troubles.items():
        terminal.note(f"at the end, {name}: {what}")
    return EngineError.exit_code if any(not is_aside(name) for name in troubles) else 0


def _where(project: Project) -> str:
    return f"data in {project.settings.storage}; `mooring tables {project.shown}` shows how to read it"


def _ensure_class_archive(terminal: Terminal) -> None:
    java = find_java()
    if usable_archive(java) is None:
        with terminal.progress("building the class archive"):
            path = build_archive(java)
        terminal.note(f"built {path}")


def start_in_background(
    files: RunFiles, words: Sequence[str], terminal: Terminal, *, standby: bool = False, serves: bool = False
) -> int:
    """Prints the process, its log and, where it `serves` one, its page once it runs."""
    begun = begin_in_background(files, words, standby=standby)
    pid, log = begun.process.pid, str(begun.log)
    page = begun.page(files) if serves and not standby else None
    terminal.document({"version": 1, "pid": pid, "log": log, "page": page})
    what = "waits" if standby else "runs"
    terminal.print(f"{what} in the background as process {pid}; log in {escape(log)}")
    if page is not None:
        terminal.print_whole(f"page: {page}")
    elif serves:
        later = "when it runs" if standby else "as soon as it is served"
        terminal.print(f"page: `mooring status` shows its address {later}")
    return 0
