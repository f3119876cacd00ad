"""`mooring serve`: a run, or a problem file, as a web page and a REST interface."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
from collections.abc import Callable

from rich.markup import escape

from mooring.cli.input.child_process import add_tls, require_service
from mooring.cli.input.parsing import Parser, add_problem
from mooring.cli.input.problem_source import is_project
from mooring.cli.output.terminal import Terminal

DESCRIPTION = (
    "Serves a live web page, a REST interface and metrics for a run on this machine (give its project "
    "folder), or a planning desk for a problem file, which needs no Spark. Listens on loopback by "
    "default. Changes need a token: the printed address carries it, and a project stores it in "
    "`.mooring/token`."
)


def add_options(parser: Parser) -> None:
    add_problem(parser)
    parser.add_argument(
        "--at",
        metavar="[HOST:]PORT",
        default="127.0.0.1:0",
        help=(
            "address to listen at (default: a free port on loopback); beyond loopback, reading needs "
            "the token too"
        ),
    )
    add_tls(parser)
    parser.add_argument("--with-parent", action="store_true", help="end when the parent process ends")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    require_service()
    if args.with_parent:
        end_with_parent()

    def listening(url: str, token: str) -> None:
        page = f"{url}#token={token}"
        terminal.document({"version": 1, "url": url, "page": page, "pid": os.getpid()})
        if not terminal.as_json:
            terminal.out.print(escape(f"page: {page}"), soft_wrap=True)
        terminal.out.file.flush()

    _serve(args, listening)
    return 0


def _serve(args: argparse.Namespace, listening: Callable[[str, str], None]) -> None:
    """`listening` is called with the address and the token once connections are accepted. A planning desk
    needs no Spark, so each service is loaded where it is meant.
    """
    from mooring.service.web.listening_place import ListeningPlace
    from mooring.service.web.tls import TlsFiles

    place = ListeningPlace.parse(args.at)
    files = None if args.tls is None else TlsFiles(*args.tls)
    if is_project(args.problem):
        from mooring.service.web.run_service import serve_run

        serve_run(args.problem, place, listening, files)
    else:
        from mooring.service.web.desk_service import serve_desk

        serve_desk(args.problem, place, listening, files)


_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Have the system end this process when the one that started it is gone: the service of a run ends with
    it.
    """
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it went before we had asked
        os.kill(os.getpid(), signal.SIGTERM)
