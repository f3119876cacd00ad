"""`mooring stop`: end a running pipeline cleanly; running it again resumes where it stopped."""

from __future__ import annotations

import argparse

from mooring.cli.input.parsing import Parser, add_project
from mooring.cli.output.terminal import Terminal
from mooring.spark.pipeline.project import work_folder_of
from mooring.spark.runs.run_files import RunFiles

DESCRIPTION = "Ends a running pipeline cleanly."
PATIENCE_S = 120.0


def add_options(parser: Parser) -> None:
    add_project(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    stopped = RunFiles(work_folder_of(args.project)).stop_runner(PATIENCE_S)
    terminal.document({"version": 1, "stopped": stopped})
    terminal.print("stopped" if stopped else "does not run")
    return 0
