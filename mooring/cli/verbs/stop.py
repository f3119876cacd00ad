"""`mooring stop`: end a running pipeline cleanly; running it again resumes where it stopped."""

from __future__ import annotations

import argparse

from mooring.cli.input.needs_spark import require_spark
from mooring.cli.input.parsing import Parser, add_project
from mooring.cli.output.terminal import Terminal

PATIENCE_S = 120.0


DESCRIPTION = "Ends a running pipeline cleanly."


def add_options(parser: Parser) -> None:
    add_project(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    require_spark(file=args.project)
    from mooring.spark.pipeline.project import load_project
    from mooring.spark.running.run_files import RunFiles

    stopped = RunFiles(load_project(args.project).work_folder).stop_runner(PATIENCE_S)
    terminal.document({"version": 1, "stopped": stopped})
    terminal.print("stopped" if stopped else "does not run")
    return 0
