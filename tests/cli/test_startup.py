"""A command loads what it needs and no more: who asks for help does not wait for a compiler."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SPARK = {"pyspark", "pandas", "pyarrow", "sqlglot", "grpc"}
FIGURES = {"matplotlib", "networkx"}
ARRAYS = {"numpy", "scipy"}
COMPILED_LOOPS = {"numba", "llvmlite"}
RARE_PARTS_OF_SCIPY = {
    f"scipy.{part}" for part in ("stats", "spatial", "optimize", "io", "integrate", "ndimage", "interpolate")
}
NOT_FOR_PLANS = SPARK | FIGURES | RARE_PARTS_OF_SCIPY

LOADED = "import json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
COMMAND = (
    f"import sys; from mooring.cli.main import main; code = main(sys.argv[1:]); {LOADED}; sys.exit(code)"
)


def loaded_by(program: str, *words: object) -> set[str]:
    """The modules that a program of its own process has loaded by its end."""
    ended = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)], capture_output=True, text=True, check=True
    )
    modules: list[str] = json.loads(ended.stderr.splitlines()[-1])
    return set(modules)


def test_importing_the_package_loads_none_of_its_libraries() -> None:
    loaded = loaded_by(f"import mooring; {LOADED}")
    assert not loaded & (NOT_FOR_PLANS | ARRAYS | COMPILED_LOOPS | {"rich", "yaml", "msgspec"})
    own = {module for module in loaded if module.startswith("mooring")}
    assert own == {"mooring", "mooring.errors"}


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("policies",), ("policies", "--json")])
def test_help_and_lists_load_neither_arrays_nor_compiled_loops(words: tuple[str, ...]) -> None:
    loaded = loaded_by(COMMAND, *words)
    assert not loaded & (NOT_FOR_PLANS | ARRAYS | COMPILED_LOOPS)
    verbs = {module for module in loaded if module.startswith("mooring.cli.verbs.")}
    assert verbs == ({"mooring.cli.verbs.policies"} if words[0] == "policies" else set())


def test_check_loads_no_compiled_loops(small: Path) -> None:
    loaded = loaded_by(COMMAND, "check", small)
    assert not loaded & (NOT_FOR_PLANS | COMPILED_LOOPS)
    assert loaded >= ARRAYS


def test_a_plan_loads_its_own_policy_and_what_that_needs(small: Path) -> None:
    loaded = loaded_by(COMMAND, "plan", small)
    assert not loaded & NOT_FOR_PLANS
    assert loaded >= COMPILED_LOOPS | {"mooring.algorithms.rod.policy"}
    assert not loaded & {"mooring.algorithms.resilient.policy", "mooring.algorithms.relaxation.policy"}
