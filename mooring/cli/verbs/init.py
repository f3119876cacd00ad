"""`mooring init`: a first `mooring.yml` for a pipeline, made of what its graph says."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from rich.markup import escape

from mooring.atomic_files import write_whole
from mooring.cli.input.parsing import Parser, add_project, positive_count
from mooring.cli.output.first_settings import first_settings
from mooring.cli.output.terminal import Terminal
from mooring.errors import InputError
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.project import load_project_without_settings, settings_files
from mooring.spark.runs.missing_sources import read_without_data

DESCRIPTION = (
    "Reads a pipeline and writes a commented mooring.yml beside its spec: sites on this machine, sources, "
    "and what is consumed. Data need not exist yet. If the pipeline cannot be read, writes the sites alone "
    "and reports the error."
)


def add_options(parser: Parser) -> None:
    add_project(parser)
    parser.add_argument(
        "--sites",
        type=positive_count,
        metavar="N",
        default=2,
        help="number of sites on this machine (default 2)",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing mooring.yml")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    project = load_project_without_settings(args.project)
    there = [file for file in settings_files(project.spec_file) if file.is_file()]
    if there and not args.force:
        raise InputError("the file exists already", file=there[0], remedy="replace it with --force")
    file = there[0].with_suffix(".yml") if there else settings_files(project.spec_file)[0]
    cores = max(0.5, round((os.cpu_count() or 1) / args.sites, 1))
    sites = {f"site_{letter}": cores for letter in _letters(args.sites)}
    layout: Layout | None = None
    missing: list[Path] = []
    wrong: InputError | None = None
    try:
        with terminal.progress("reading the pipeline"):
            layout, missing = read_without_data(project)
    except InputError as error:
        wrong = error
    write_whole(
        file, first_settings(project.spec.name, sites, layout, project.work_folder.name), on_disk=True
    )
    if wrong is not None:
        terminal.note(f"wrote {file} with the sites alone, because the pipeline cannot be read:")
        raise wrong
    assert layout is not None
    terminal.document(
        {
            "version": 1,
            "file": str(file),
            "sites": sites,
            "streams": list(layout.entries),
            "datasets": {name: dataset.kind for name, dataset in layout.pipeline.datasets.items()},
            "missing": list(map(str, missing)),
        }
    )
    for folder in missing:
        terminal.print(
            f"[yellow]note:[/yellow] {escape(str(folder))} does not exist yet; make it before a run"
        )
    terminal.print(f"Wrote {escape(str(file))}. Now `mooring run {escape(project.shown)}`")
    return 0


def _letters(count: int) -> list[str]:
    """a to z, then aa, ab, ..."""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    return [(alphabet[i // 26 - 1] if i >= 26 else "") + alphabet[i % 26] for i in range(count)]
