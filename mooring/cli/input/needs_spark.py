"""Planning alone installs without Spark; verbs that need it say what is missing."""

from __future__ import annotations

from pathlib import Path

from mooring.errors import InputError


def require_spark(*, file: Path | None = None, field: str | None = None) -> None:
    """Before importing from `mooring.spark`; `file` or `field` is what asked for it."""
    try:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
        import sqlglot  # noqa: F401

        import mooring.spark.running.project_run  # noqa: F401
    except ImportError as error:
        missing = (error.name or "pyspark").split(".")[0]
        if missing == "mooring":
            raise
        raise InputError(
            f"this needs Spark, and {missing} is not installed",
            file=file,
            field=field,
            remedy="pip install 'mooring[spark]'",
        ) from None
