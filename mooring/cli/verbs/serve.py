"""`mooring serve`: a run, or a problem file, as a web page and a REST interface."""

from __future__ import annotations

import argparse
import os
import secrets
from pathlib import Path

from rich.markup import escape

from mooring.cli.input.parsing import Parser, add_problem
from mooring.cli.input.serving import end_with_parent, run_service
from mooring.cli.output.terminal import Terminal
from mooring.errors import InputError
from mooring.problem.problem import Problem
from mooring.service.view.planning_desk import PlanningDesk
from mooring.service.web.app import desk_app
from mooring.service.web.server import DEFAULT_ADDRESS, Address, serve

DESCRIPTION = (
    "Shows a run (a project folder, wherever on this machine it was started) as a web page that follows it, "
    "with a REST interface and metrics; or a problem file as a planning desk, which needs no Spark. "
    "Listens on loopback unless told otherwise. Changes need the token that lies in `.mooring/token`; the "
    "address that is printed carries it."
)


def add_options(parser: Parser) -> None:
    add_problem(parser)
    parser.add_argument(
        "--at",
        metavar="[HOST:]PORT",
        default=DEFAULT_ADDRESS,
        help="where to listen (default: loopback, a free port); beyond it reading needs the token too",
    )
    parser.add_argument(
        "--with-parent", action="store_true", help="end when the process that started this ends"
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    address = Address.parse(args.at)

    def listening(url: str, token: str, what: str) -> None:
        terminal.document({"version": 1, "url": url, "pid": os.getpid()})
        terminal.print(f"{escape(what)}: {escape(url)}#token={escape(token)}")
        terminal.out.file.flush()

    if args.with_parent:
        end_with_parent()
    if Path(args.problem).is_dir():
        run_service(Path(args.problem), address, listening)
        return 0
    desk = PlanningDesk(Path(args.problem).stem, Problem.load(args.problem))
    if not desk.problem.streams:
        raise InputError("found no streams, expected some to plan for", file=args.problem)
    token = secrets.token_urlsafe(32)
    serve(
        lambda rules: desk_app(desk, rules),
        address,
        token,
        lambda url: listening(url, token, "planning desk"),
    )
    return 0
