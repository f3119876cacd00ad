"""The option `--on spark` of verbs whose long work a cluster can do."""

from __future__ import annotations

import argparse

from mooring.cli.input.parsing import Parser
from mooring.errors import InputError
from mooring.spark.needs_spark import require_spark


def add_on_spark(parser: Parser) -> None:
    parser.add_argument(
        "--on", choices=("here", "spark"), default="here", help="where the work runs (default here)"
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help="with --on spark: local[N], spark://host:port, yarn, k8s://..., or a Connect endpoint "
        "sc://host:port (default local[2])",
    )


def is_on_spark(args: argparse.Namespace) -> bool:
    if args.on == "here" and args.master is not None:
        raise InputError("found a master without --on spark", field="--master", remedy="add --on spark")
    if args.on == "spark":
        require_spark(field="--on spark")
    return bool(args.on == "spark")
