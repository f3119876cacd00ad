"""Which file or folder a verb is about: its argument, `--spec`, or this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.cli.input.parsing import settle_source
from mooring.cli.input.problem_source import is_pipeline_spec
from mooring.cli.main import build_parser, main
from mooring.errors import InputError

ROOT = Path(__file__).parents[3]


def settled(verb: str, *words: str) -> Path:
    args = build_parser(verb).parse_args([verb, *words])
    settle_source(args)
    found: Path = args.problem if hasattr(args, "problem") else args.project
    return found


def test_a_spec_may_be_named_from_here_or_from_the_project(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the `spark` extra is not installed")
    spec = tmp_path / "gold.yml"
    spec.write_text("name: gold\nstorage: x\n")
    for verb in ("status", "plan"):
        assert settled(verb, str(tmp_path)) == tmp_path
        assert settled(verb, "--spec", str(spec)) == spec
        assert settled(verb, str(tmp_path), "--spec", "gold.yml") == spec
    with pytest.raises(InputError, match="no such file"):
        settled("plan", "--spec", "nowhere.yml")
    with pytest.raises(InputError, match="no FILE"):
        settled("plan")


def test_without_a_project_the_nearest_folder_with_a_spec_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark", reason="the `spark` extra is not installed")
    inner = tmp_path / "transformations" / "deep"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert settled("status") == inner
    (tmp_path / "spark-pipeline.yaml").write_text("name: x\nstorage: y\n")
    assert settled("status") == tmp_path


def test_a_pipeline_spec_is_told_from_a_problem_file() -> None:
    assert is_pipeline_spec(ROOT / "examples/network_monitoring/spark-pipeline.yml")
    assert not is_pipeline_spec(ROOT / "examples/network_monitoring/mooring.yml")
    assert not is_pipeline_spec(ROOT / "examples/forest.yaml")


def test_a_chunks_file_is_sent_to_its_own_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(ROOT / "examples/cameras.yaml")]) == 2
    assert "mooring chunks" in capsys.readouterr().err
