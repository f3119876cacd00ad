"""A policy and a decider outside the package, named on a command line in their folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Mooring

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder of the modules, which is not on the path yet."""
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each and Path(each) != EXAMPLES])
    for name in ("own_policy", "own_decider"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_an_own_policy_plans_by_its_settings(mooring: Mooring) -> None:
    def sites(*words: str) -> int:
        document = mooring(
            "plan", "forest.yaml", "--policy", "own_policy:FewSites", "--json", *words
        ).document
        assert document["policy"] == "few_sites"
        return len(set(document["placement"].values()))

    assert sites() < sites("--set", "most_used=0.5")


def test_an_own_policy_is_compared_with_others(mooring: Mooring) -> None:
    found = mooring("compare", "forest.yaml", "--policies", "own_policy:FewSites,rod", "--json").document
    assert set(found["policies"]) == {"few_sites", "rod"}
    assert found["best"] == "rod"


def test_an_own_decider_moves_in_the_simulator_and_is_named(mooring: Mooring) -> None:
    words = ("flood.yaml", "--adapt", "own_decider:Evener", "--alone", "--seconds", "200", "--json")
    (way, course), *others = mooring("simulate", *words).document["ways"].items()
    assert (way, others) == ("evener", [])
    assert course["moves"]
    assert {move["asked_by"] for move in course["moves"]} == {"adapting: evener"}
    still = mooring("simulate", *words, "--set", "most_used=1").document["ways"]["evener"]
    assert not [move for move in still["moves"] if move["at_s"] < course["moves"][0]["at_s"]]


def test_replanning_may_be_by_an_own_policy(mooring: Mooring) -> None:
    words = ("--adapt", "replan", "--policy", "own_policy:FewSites", "--seconds", "60", "--json")
    assert set(mooring("simulate", "flood.yaml", *words).document["ways"]) == {"none", "replan", "replanned"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plan", "forest.yaml", "--policy", "own_polcy:FewSites"), "no Python module 'own_polcy'"),
        (("compare", "forest.yaml", "--policies", "own_policy:FewSits"), "did you mean 'FewSites'?"),
        (("simulate", "flood.yaml", "--adapt", "own_policy:FewSites"), "is not a decider"),
        (("simulate", "flood.yaml", "--adapt", "own_decider:Evener", "--set", "most=1"), "'most_used'"),
        (("simulate", "flood.yaml", "--adapt", "own_decider:Evener", "--set", "most_used=7"), "at most 1"),
        (("simulate", "flood.yaml", "--adapt", "evener"), "expected a decider"),
        (("simulate", "flood.yaml", "--adapt", "none", "--policy", "own_policy:F"), "FewSites"),
    ],
)
def test_what_is_wrong_with_a_name_is_bad_input(words: tuple[str, ...], said: str, mooring: Mooring) -> None:
    result = mooring(*words)
    assert result.code == 2
    assert said in " ".join(result.err.split())
    assert "Traceback" not in result.err


def test_the_command_finds_modules_in_the_folder_that_it_is_started_in(tmp_path: Path) -> None:
    """As installed: a command's own folder is on Python's path, and the user's is not."""
    (tmp_path / "mine.py").write_text((EXAMPLES / "own_policy.py").read_text())
    program = "import sys; sys.path.remove(''); from mooring.cli.main import entry; entry()"
    words = ("plan", str(EXAMPLES / "flood.yaml"), "--policy", "mine:FewSites", "--json")
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["policy"] == "few_sites"
