"""`mooring chunks` prints a chunk plan, its bound and a picture; the same seed gives the same bytes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from mooring.algorithms.catalogue import DECIDERS, POLICIES
from mooring.chunks.data.routing_table import Route
from mooring.chunks.files.plan_file import load_chunk_plan, routes_of
from mooring.cli import main as command_line
from mooring.errors import InputError

if TYPE_CHECKING:
    from tests.cli.conftest import Mooring

CHUNKS_KEYS = [
    "version",
    "problem",
    "assign",
    "search",
    "operators",
    "latency_ms",
    "latency_bound_ms",
    "load",
    "evaluations",
    "plan_seconds",
]
SMALL = """
sites: {fast: {capacity: 1}, slow: {capacity: 0.5}}
streams: {camera: {rate: 5}}
frames:
  streams: {camera: {shape: [8, 12]}}
  operators:
    blur: {inputs: [camera], mapping: region, halo: [1, 1], cost_us: {map: [[9, 1]]}}
    count: {inputs: [blur], mapping: whole, shape: [4], cost_us: 1}
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def without_seconds(document: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in document.items() if key != "plan_seconds"})


def test_a_budget_is_of_the_whole_command(
    mooring: Mooring, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough = mooring("chunks", small, "--budget", 10_000, "--steps", 20, "--json")
    assert enough.document["evaluations"] > 1
    monkeypatch.setattr(command_line, "time", SimpleNamespace(monotonic=lambda: time.monotonic() - 20_000.0))
    spent = mooring("chunks", small, "--budget", 10_000, "--steps", 20, "--json")
    assert spent.document["evaluations"] == 1


def test_a_chunk_plan_has_the_documented_keys_and_keeps_above_its_bound(
    mooring: Mooring, small: Path
) -> None:
    result = mooring("chunks", small, "--steps", 20, "--json")
    assert result.code == 0
    document = result.document
    assert list(document) == CHUNKS_KEYS
    assert document["latency_ms"] >= document["latency_bound_ms"] > 0
    assert document["operators"]["count"]["chunks"] == 1
    for chunks in document["operators"].values():
        assert len(chunks["sites"]) == chunks["chunks"]
        assert set(chunks["sites"]) <= {"fast", "slow"}


@pytest.mark.parametrize("words", [(), ("--search", "genetic"), ("--assign", "earliest-finish")])
def test_the_same_seed_gives_the_same_bytes(mooring: Mooring, small: Path, words: tuple[str, ...]) -> None:
    runs = [mooring("chunks", small, *words, "--steps", 12, "--seed", 3, "--json") for _ in range(2)]
    assert without_seconds(runs[0].document) == without_seconds(runs[1].document)


def test_the_table_and_the_picture_show_who_does_the_work(mooring: Mooring, small: Path) -> None:
    shown = mooring("chunks", small, "--most-chunks", 4, "--steps", 30).out
    assert "blur: the work in its first frame, and the site of each chunk" in shown
    assert "A fast, B slow" in shown
    assert "no chunk plan is below" in shown
    assert "@@@@@@" in shown


def test_a_plan_is_written_drawn_and_begun_from(mooring: Mooring, small: Path, tmp_path: Path) -> None:
    plan, figure = tmp_path / "plan.json", tmp_path / "out" / "plan.png"
    assert mooring("chunks", small, "--steps", 20, "--output", plan, "--figure", figure).code == 0
    assert figure.read_bytes().startswith(b"\x89PNG")
    again = mooring("chunks", small, "--from", plan, "--steps", 20, "--json").document
    assert again["latency_ms"] <= load_chunk_plan(plan).latency_ms + 1e-9


def test_a_plan_becomes_routes_for_spark(mooring: Mooring, small: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert mooring("chunks", small, "--steps", 20, "--output", plan).code == 0
    routes = routes_of(load_chunk_plan(plan), ["fast", "slow"])
    assert isinstance(routes["blur"], Route)
    assert len(routes["blur"].bounds((8, 12))) == len(routes["blur"].nodes)
    with pytest.raises(InputError, match="for operator"):
        routes_of(load_chunk_plan(plan), ["elsewhere"])


def test_a_plan_file_that_is_none_is_refused(mooring: Mooring, small: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"operators": {"blur": {"parts": [2, 2], "sites": ["fast"]}}}')
    result = mooring("chunks", small, "--from", wrong)
    assert result.code == 2
    assert "operators.blur.sites" in result.err
    assert "4 sites" in result.err


def test_chunks_have_files_of_their_own_and_no_policy_or_decider(mooring: Mooring) -> None:
    """As the README says of the fifth paper, unlike the other four."""
    examples = Path(__file__).parents[3] / "examples"
    for verb in ("plan", "simulate"):
        refused = mooring(verb, examples / "cameras.yaml")
        assert refused.code == 2
        assert "found a chunks file, expected a problem file" in " ".join(refused.err.split())
    assert mooring("chunks", examples / "forest.yaml").code == 2
    assert "chunks" not in {*POLICIES, *DECIDERS}
