"""Whatever needs Spark says so in the same words, whichever part of it is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mooring.errors import InputError
from mooring.spark.needs_spark import missing_spark, require_spark


@pytest.mark.parametrize("missing", ["pandas", "sqlglot"])
def test_a_missing_part_of_spark_is_named_with_what_asked_for_it(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    if missing == "sqlglot":
        pytest.importorskip("pyarrow")
    with pytest.raises(
        InputError, match=rf"project: this command needs Spark, and {missing} is not installed.*\[spark\]"
    ):
        require_spark(file=Path("project"))
    with pytest.raises(InputError, match="--on spark: this command needs Spark"):
        require_spark(field="--on spark")


def test_a_verb_that_cannot_be_loaded_without_spark_says_so_in_the_same_words() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; from mooring.cli.main import main; main(['stop', 'x'])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    told = " ".join(ended.stderr.split())
    assert "this command needs Spark, and pyspark is not installed (install Mooring with its extra" in told


def test_what_fails_to_be_imported_for_another_reason_stays_what_it_is() -> None:
    bug = ImportError("cannot import name 'x' from 'mooring.planning'", name="mooring.planning")
    assert missing_spark(bug) is bug
