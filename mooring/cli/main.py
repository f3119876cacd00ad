"""The command `mooring`: one file per verb, one place where errors become a message and an exit code.

A verb file has `add_parser(verbs)`, which names its options, and `run(args, terminal)`, which does the work
and returns an exit code.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Protocol

from mooring import __version__
from mooring.cli.input.parsing import Parser, Run, Verbs
from mooring.cli.output.terminal import Terminal
from mooring.cli.verbs import (
    check,
    compare,
    evaluate,
    experiment,
    generate,
    headroom,
    import_,
    moves,
    plan,
    policies,
    profile,
    run,
    simulate,
    status,
    stop,
    traces,
)
from mooring.errors import MooringError

INTERRUPTED = 130
BROKEN_PIPE = 141
"""What a shell reports of a program that SIGPIPE ended: the reader of our output went away."""
BUG = 1


class Verb(Protocol):
    def add_parser(self, verbs: Verbs) -> None: ...


VERBS: tuple[Verb, ...] = (
    *(check, plan, evaluate, compare, headroom, simulate),
    *(generate, import_, traces, policies, experiment),
    *(profile, run, status, moves, stop),
)


def entry() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no bars still gets the figures
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run one command and return its exit code: 0 done, 2 bad input, 3 infeasible, 4 engine trouble."""
    terminal = Terminal.of(sys.stdout, sys.stderr, as_json="--json" in argv)
    try:
        code = _run(argv, terminal)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes standard output once more on its way out: let that go nowhere instead of failing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _run(argv: Sequence[str], terminal: Terminal) -> int:
    try:
        args = build_parser().parse_args(argv)
        work: Run = args.run
        return work(args, terminal)
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    except MooringError as error:
        terminal.error(error)
        return error.exit_code
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as bug:
        traceback.print_exc()
        kind, message = type(bug).__name__, f"this is a bug in Mooring: {bug}"
        terminal.document({"error": {"kind": kind, "message": message, "remedy": "please report it"}})
        return BUG


def build_parser() -> Parser:
    parser = Parser(
        prog="mooring",
        description="Decides where each operator of a streaming pipeline runs, and explains it.",
    )
    parser.add_argument("--version", action="version", version=f"mooring {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True, title="verbs")
    for verb in VERBS:
        verb.add_parser(verbs)
    return parser
