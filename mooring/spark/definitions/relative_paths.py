"""Relative paths of data in definitions.

`spark-pipelines` starts Spark in the folder that it is called in, and changes into the spec's folder for
Python alone. So `open("x")` in a definition starts at the spec, while `spark.read.parquet("x")`,
parquet.`x` in SQL and the path of a sink start where the command is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_FORMATS = {"parquet", "orc", "json", "csv", "text", "avro", "binaryfile", "delta", "xml"}
"""What a path may follow in place of a database."""


def is_relative(path: str) -> bool:
    """
    >>> is_relative("./data"), is_relative("/data"), is_relative("s3a://bucket/data")
    (True, False, False)
    """
    return bool(path) and not path.startswith("/") and _SCHEME.match(path) is None


def relative_in_source(source: Message) -> list[str]:
    """Of the `DataSource` of a read."""
    found: Any = source
    given = [value for name, value in found.options.items() if name.lower() == "path"]
    return [path for path in (*found.paths, *given) if is_relative(path)]


def relative_in_names(names: Iterable[str]) -> list[str]:
    """Of tables that a query names: files can be read by their path.

    >>> relative_in_names(["orders", "parquet../data/x.parquet", "json./data/x"])
    ['./data/x.parquet']
    """
    split = [name.partition(".") for name in names]
    return [path for form, _, path in split if form.lower() in _FORMATS and is_relative(path)]
