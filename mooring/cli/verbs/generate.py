"""`mooring generate`: a random problem file with the graphs of section 7.1 of the ROD paper."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape

from mooring.cli.input.files import write_text
from mooring.cli.input.parsing import Parser, count, number, numbers, positive_count
from mooring.cli.output.terminal import Terminal
from mooring.model.network.real_networks import real_network
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.write import problem_to_data, problem_to_json, problem_to_yaml

OPTIONS = (
    # option, type, metavar, default as the library has it, what it says
    ("streams", positive_count, "N", 5, "number of input streams, each with one tree of operators"),
    ("operators", positive_count, "N", 100, "number of operators in all trees, a multiple of --streams"),
    ("sites", positive_count, "N", 10, "sites"),
    ("capacity", numbers, "LOW,HIGH", "1,1", "cores per site"),
    ("children", numbers, "LOW,HIGH", "1,3", "downstream operators per node"),
    ("cost-us", numbers, "LOW,HIGH", "100,1000", "CPU microseconds per tuple"),
    ("selectivity", numbers, "LOW,HIGH", "0.5,1", "selectivity of the operators where it is not 1"),
    ("unit-selectivity-share", number, "SHARE", 0.5, "share of operators with selectivity 1"),
    ("utilisation", number, "SHARE", 0.5, "present load as a share of the capacity"),
    ("comm-us", number, "US", 0, "CPU microseconds per tuple at each end of a link between sites"),
    ("joins", count, "N", 0, "number of operators that become joins with another tree"),
    ("variable", count, "N", 0, "number of operators whose selectivity is marked as not constant"),
    ("stream-bytes", number, "BYTES", None, "bytes per tuple"),
    ("plane-ms", number, "MS", None, "scatter the sites over a square with sides of MS latency"),
    ("queries", count, "N", 0, "number of queries on last operators, at random sites"),
)


DESCRIPTION = (
    "Writes a random problem: a forest with one tree of operators per stream, as in section 7.1 of the "
    "ROD paper. Values are drawn uniformly from LOW to HIGH. Without --output, prints the problem."
)


def add_options(parser: Parser) -> None:
    for option, kind, metavar, default, meaning in OPTIONS:
        said = meaning if default is None else f"{meaning} (default {default})"
        parser.add_argument(f"--{option}", type=kind, metavar=metavar, help=said)
    parser.add_argument(
        "--order", choices=("breadth_first", "random"), help="how trees grow (default breadth_first)"
    )
    parser.add_argument("--rates", choices=("equal", "random"), help="present rates (default equal)")
    parser.add_argument(
        "--network",
        metavar="NAME|PATH",
        help=(
            "real network with the sites: aws, planetlab, a GML file (Internet Topology Zoo), a "
            "folder of ping summaries, or a matrix of round-trip times in ms"
        ),
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="problem file to write, .yaml or .json")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    names = [option.replace("-", "_") for option, *_ in OPTIONS] + ["order", "rates"]
    given: dict[str, Any] = {name: value for name in names if (value := getattr(args, name)) is not None}
    if "children" in given:
        given["children"] = tuple(map(int, given["children"]))
    network = None if args.network is None else real_network(args.network)
    problem = generate_problem(GraphParameters(**given), np.random.default_rng(args.seed), network)
    if args.output is None:
        if terminal.as_json:
            terminal.document(problem_to_data(problem))
        else:
            terminal.raw(problem_to_yaml(problem))
        return 0
    is_json = args.output.suffix.lower() == ".json"
    write_text(args.output, problem_to_json(problem) if is_json else problem_to_yaml(problem))
    counts = {name: len(getattr(problem, name)) for name in ("sites", "streams", "operators", "queries")}
    terminal.document({"version": 1, "file": str(args.output), **counts})
    terminal.print(
        f"Wrote {escape(str(args.output))}: " + ", ".join(f"{count} {name}" for name, count in counts.items())
    )
    return 0
