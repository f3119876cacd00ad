"""The command `mooring`: one file per verb, one place where errors become a message and an exit code.

A verb file has a `DESCRIPTION`, `add_options(parser)`, which names its options, and `run(args, terminal)`,
which does the work and returns an exit code. Only the file of the given verb is loaded, without the imports
of the others; so the list of verbs and its texts are here.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import logging
import os
import sys
import time
import traceback
from collections.abc import Sequence
from keyword import iskeyword
from typing import NoReturn, Protocol, cast

from mooring import __version__
from mooring.cli.input.parsing import Parser, RunVerb, add_shared_options, settle_source
from mooring.cli.output.compile_note import compiling_noted
from mooring.cli.output.terminal import Terminal
from mooring.errors import MooringError, UnsupportedError
from mooring.spark.needs_spark import missing_spark

INTERRUPTED = 130
BROKEN_PIPE = 141
"""What a shell reports of a program that SIGPIPE ended: the reader of our output went away."""
BUG = 1
YOUNG_OBJECTS = 10_000
"""Made before Python looks for garbage among them. What a command loads lives to its end, and looking through
it at every 700th object takes a tenth of a small plan's time."""


VERBS = {
    "init": "write a first mooring.yml for a pipeline",
    "example": "list the examples that come with Mooring, or copy one",
    "check": "validate a problem file or project and summarise it",
    "plan": "place the operators of a problem on its sites",
    "evaluate": "print the metrics of a placement",
    "compare": "run several policies on one problem, side by side",
    "headroom": "show how far the rates are from overload",
    "simulate": "simulate a placement in virtual time",
    "chunks": "partition array frames into chunks and assign them to sites",
    "generate": "write a random problem file (ROD paper, section 7.1)",
    "import": "make a problem file from Spark logs of running queries",
    "traces": "count the rates of packet or request traces, for `rates: history.csv`",
    "policies": "list the policies and their parameters",
    "experiment": "run an experiment of the papers; without a name, list them",
    "profile": "measure the costs of a pipeline's fragments",
    "run": "run a pipeline over its sites",
    "status": "show the state of a running pipeline",
    "logs": "print the last lines of a run's logs, or follow them",
    "tables": "list a pipeline's tables, and how to read them",
    "moves": "list or apply the moves from the running placement to a plan",
    "serve": "show a run, or a problem file, as a web page and a REST interface",
    "stop": "end a running pipeline cleanly",
    "agent": "run the agent of a site, or make certificates for agents",
    "doctor": "examine a project's storage without changing it",
}
"""Every verb, in the order of the list, with its line there."""
IN_LAB = {"experiment": "lab.experiments.command"}
"""Verbs that come with a checkout alone, and their modules there."""


class Verb(Protocol):
    DESCRIPTION: str
    run: RunVerb

    def add_options(self, parser: Parser) -> None: ...


def entry() -> None:
    """The console script."""
    gc.set_threshold(YOUNG_OBJECTS)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no bars still gets the figures
    leave(main(sys.argv[1:]))


def leave(code: int) -> NoReturn:
    """End the process. By now every session is closed and every file written, so the interpreter need not
    take its objects apart: that takes a tenth of a second, and Spark's client can wait for ever in it for a
    lock of gRPC's.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


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
    begun_s = time.monotonic()
    try:
        args = build_parser(asked_verb(argv)).parse_args(argv)
        args.begun_s = begun_s  # a budget is of the whole command, imports included
        args.words = list(argv)  # for a verb that starts itself anew
        settle_source(args)
        work: RunVerb = args.run
        with compiling_noted(terminal):
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


def asked_verb(argv: Sequence[str]) -> str | None:
    """The verb on a command line: its first word, since no option that may come before it takes a value.

    >>> asked_verb(["plan", "check.yaml"]), asked_verb(["--help"]), asked_verb(["pln"])
    ('plan', None, None)
    """
    word = next((word for word in argv if not word.startswith("-")), None)
    return word if word in VERBS else None


def build_parser(asked: str | None) -> Parser:
    """Knows the names of all verbs, and the options of the one that was asked for."""
    parser = Parser(
        prog="mooring",
        description=(
            "Places the operators of streaming pipelines on sites, explains the placement, and runs "
            "pipelines on Spark."
        ),
    )
    parser.add_argument("--version", action="version", version=f"mooring {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True, title="verbs")
    for name, summary in VERBS.items():
        own = verbs.add_parser(name, help=summary)
        if name == asked:
            verb = load_verb(name)
            own.description = verb.DESCRIPTION
            own.set_defaults(run=verb.run)
            add_shared_options(own)
            verb.add_options(own)
    return parser


def load_verb(name: str) -> Verb:
    """The one place where the command line imports something only when it is asked for."""
    module = f"{name}_" if iskeyword(name) else name
    try:
        return cast(Verb, importlib.import_module(IN_LAB.get(name, f"mooring.cli.verbs.{module}")))
    except ImportError as error:
        if name in IN_LAB and (error.name or "").split(".")[0] == "lab":
            raise UnsupportedError(
                f"`mooring {name}` is part of a checkout of Mooring, and the lab is not installed here",
                remedy="in a checkout: make setup, or pip install --editable lab",
            ) from error
        raise missing_spark(error) from error
