"""Whatever needs Spark says so in the same words, whichever part of it is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mooring.cli.input.needs_spark import require_spark
from mooring.errors import InputError


@pytest.mark.parametrize("missing", ["pandas", "sqlglot"])
def test_a_missing_part_of_spark_is_named_with_what_asked_for_it(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    if missing == "sqlglot":
        pytest.importorskip("pyarrow")
    with pytest.raises(
        InputError, match=rf"project: this needs Spark, and {missing} is not installed.*\[spark\]"
    ):
        require_spark(file=Path("project"))
    with pytest.raises(InputError, match="--on spark: this needs Spark"):
        require_spark(field="--on spark")
