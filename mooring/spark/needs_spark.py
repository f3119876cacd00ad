"""Planning alone installs without Spark; what needs it says what is missing."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from mooring.errors import InputError, installing

PACKAGES = ("pyspark", "grpc", "pandas", "pyarrow", "sqlglot")
"""What the `spark` extra installs, by the names under which it is imported."""


def require_spark(*, file: Path | None = None, field: str | None = None) -> None:
    """Before asking `mooring.spark` for something; `file` or `field` is what asked for it."""
    missing = next((package for package in PACKAGES if find_spec(package) is None), None)
    if missing is not None:
        raise _not_installed(missing, file, field)


def missing_spark(error: ImportError) -> Exception:
    """What failed to be imported, in words where it is a part of Spark; any other failure is a bug."""
    package = (error.name or type(error).__module__).split(".")[0]  # Spark complains of its own needs unnamed
    return _not_installed(package, None, None) if package in PACKAGES else error


def _not_installed(package: str, file: Path | None, field: str | None) -> InputError:
    return InputError(
        f"this command needs Spark, and {package} is not installed",
        file=file,
        field=field,
        remedy=installing("spark"),
    )
