"""`mooring.run`: a project run from Python, by the verb, with a decider that is no part of the package."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import mooring
from mooring.errors import EngineError, InputError

if TYPE_CHECKING:
    from tests.spark.runs.conftest import EvenNumbersMaker, WaitUntil

EXAMPLES = Path(__file__).parents[3] / "examples"
AT_HERE = {"numbers:ingest": "here", "kept": "here"}
AT_ONCE = {"looks": 1, "pause_s": 0, "least_gain": 0, "worth": 0, "untouched": ["nothing"]}


def test_an_own_decider_moves_a_fragment_of_a_run_and_is_named(
    even_numbers: EvenNumbersMaker,
    up_already: str,
    wait_until: WaitUntil,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The module lies in the folder in which the run is begun."""
    project = even_numbers(f"{{here: {up_already}, there: {up_already}}}")
    shutil.copy(EXAMPLES / "own_decider.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    fed = 0

    def feed() -> None:
        nonlocal fed
        project.feed(range(fed, fed + 10))
        fed += 10

    feed()
    run = mooring.run(
        project.folder,
        placement=AT_HERE,
        adapt="own_decider:Evener",
        adapt_settings={"most_used": 1e-9},
        act="apply",
        guards=AT_ONCE,
    )
    with run:
        assert run.running
        assert repr(run).startswith("Run(project: runs, process ")
        with pytest.raises(EngineError, match="already runs, as process"):
            mooring.run(project.folder)

        def moved() -> bool:
            feed()
            fragments = run.status()["last"]["fragments"]
            return "kept" in fragments and fragments["kept"]["site"] == "there"

        wait_until(moved, "the decider to move a fragment")
        adapting: dict[str, Any] = run.status()["last"]["adapting"]
        assert (adapting["decider"], adapting["act"]) == ("evener", "apply")
        project.wait_for(fed)
    assert run.status()["running"] is False
    report = run.wait()
    assert (report["decider"], report["ended"]) == ("evener", "stopped by SIGTERM")
    assert "adapting: evener" in " ".join(report["incidents"])
    assert run.report.read_text().startswith("<!doctype html>")
    assert project.kept() == list(range(0, fed, 2))


def test_what_is_wrong_with_a_run_is_said_before_a_process_is_started(
    even_numbers: EvenNumbersMaker, up_already: str
) -> None:
    folder = even_numbers(f"{{here: {up_already}}}").folder
    for words, options in {
        "no Python module 'own_decidr'": {"adapt": "own_decidr:Evener"},
        "expected a policy": {"policy": "rodd"},
        "expected a name: a run is a process of its own": {"adapt": object()},
    }.items():
        with pytest.raises(InputError, match=words):
            mooring.run(folder, **options)  # type: ignore[arg-type]
    assert not (folder / ".mooring").exists()


def test_a_settings_file_may_not_name_a_module(even_numbers: EvenNumbersMaker, up_already: str) -> None:
    folder = even_numbers(f"{{here: {up_already}}}").folder
    settings = folder / "mooring.yml"
    settings.write_text(settings.read_text() + "policy: own_policy:FewSites\n")
    with pytest.raises(InputError, match=r"mooring\.yml: policy: .*only a command line or Python may name"):
        mooring.run(folder)
