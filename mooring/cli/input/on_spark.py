"""The option `--on spark` of verbs whose long work a cluster can do, and the session it asks for."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mooring.cli.input.needs_spark import require_spark
from mooring.cli.input.parsing import Parser
from mooring.errors import InputError


def add_on_spark(parser: Parser) -> None:
    parser.add_argument(
        "--on", choices=("here", "spark"), default="here", help="where the work is done (default here)"
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
    return bool(args.on == "spark")


@contextmanager
def spark_session(args: argparse.Namespace) -> Iterator[Any]:
    """A session that ends with the block."""
    require_spark(field="--on spark")
    from mooring.spark.jobs.batch_session import DEFAULT_MASTER, batch_session

    with batch_session(args.master or DEFAULT_MASTER) as session:
        yield session
