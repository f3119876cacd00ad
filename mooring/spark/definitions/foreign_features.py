"""Features that exist on Databricks only, refused by name with what to write instead."""

from __future__ import annotations

import re

from mooring.errors import UnsupportedError

SKIP = "leave it and its readers out with `skip: [{name}]` in mooring.yml"

_ATTRIBUTES = (
    (
        re.compile(r"expect(_or_drop|_or_fail|_all\w*)?"),
        "expectations exist on Databricks only",
        "filter in the flow instead, df.where(condition)",
    ),
    (
        re.compile(r"apply_changes\w*|create_auto_cdc_from_snapshot_flow"),
        "a flow that rewrites its target cannot be placed: channels only append",
        "run it with spark-pipelines on one cluster",
    ),
    (re.compile(r"read|read_stream"), "Databricks' own", "use spark.read.table and spark.readStream.table"),
    (re.compile(r"view"), "a Databricks name", "use @dp.temporary_view"),
)
_FUNCTIONS = re.compile(r"`?(cloud_files|read_files|read_kafka)`?", re.IGNORECASE)


def foreign_to_spark(failure: BaseException, file: str) -> tuple[str, str] | None:
    """Why a definition file could not be run, and what to do; None where it uses nothing foreign."""
    left_out = SKIP.format(name=file)
    if isinstance(failure, ModuleNotFoundError):
        top = (failure.name or "").partition(".")[0]
        if top == "dlt":
            return (
                "imports dlt, the pipeline package of Databricks",
                f"write `from pyspark import pipelines as dp`, and dp in place of dlt; or {left_out}",
            )
        if top == "databricks":
            return f"imports {failure.name}, which exists on Databricks only", f"remove it, or {left_out}"
    if isinstance(failure, NameError) and failure.name in ("dbutils", "display"):
        return f"uses {failure.name}, which exists on Databricks only", f"remove it, or {left_out}"
    if isinstance(failure, AttributeError) and "pyspark.pipelines" in str(failure):
        for pattern, why, instead in _ATTRIBUTES:
            if pattern.fullmatch(failure.name or ""):
                return f"uses dp.{failure.name}: {why}", f"{instead}; or {left_out}"
    return None


def foreign_remedy(failure: BaseException | str, dataset: str) -> str | None:
    """What to do about a function or source in a query that only Databricks has; None where it has none."""
    text, left_out = str(failure), SKIP.format(name=dataset)
    if re.search(r"data source: cloudFiles", text, re.IGNORECASE):
        return (
            "cloudFiles (Auto Loader) exists on Databricks only: read the folder with "
            "spark.readStream.format('json').schema(...).load(path), which reads new files too; or "
            f"{left_out}"
        )
    if "TABLE_VALUED_FUNCTION" in text and (found := _FUNCTIONS.search(text)) is not None:
        return (
            f"{found[1]} exists on Databricks only: read the files in a Python flow with spark.readStream "
            f"and their format; or {left_out}"
        )
    return None


def refused_expectations(name: str, place: str) -> UnsupportedError:
    return UnsupportedError(
        f"the definition of {name!r} has expectations (CONSTRAINT ... EXPECT), which exist on Databricks "
        "only",
        file=place,
        remedy=f"filter in the query instead, WHERE condition; or {SKIP.format(name=name)}",
    )


def refused_auto_cdc(name: str, place: str) -> UnsupportedError:
    return UnsupportedError(
        f"the AutoCDC flow {name!r} cannot be placed: it rewrites its target, and channels only append",
        file=place,
        remedy="run it with spark-pipelines on one cluster, reading Mooring's output; "
        + SKIP.format(name=name),
    )
