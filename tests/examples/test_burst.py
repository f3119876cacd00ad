"""The demo's flood: proposals are applied until every site is below full, and told in three sentences."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "network_monitoring"


@pytest.fixture
def burst(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return importlib.import_module("burst")


def test_it_applies_again_once_the_first_list_has_settled(
    burst: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = {"fragment": "f", "from": "a", "to": "b", "pause_s": 0.9}
    answer = json.dumps({"applied": {"steps": [step]}})
    done = SimpleNamespace(returncode=0, stdout=answer, stderr="")
    monkeypatch.setattr(burst.subprocess, "run", lambda *args, **options: done)
    feeder = SimpleNamespace(at_s=burst.FLOOD.from_s + 1.0)
    mover = burst.Mover(tmp_path, feeder)
    (tmp_path / ".mooring").mkdir()

    def shows(headroom: float, moves: list[Any]) -> None:
        status = {
            "proposal": {"headroom": headroom, "moves": moves},
            "headroom": {"sites": {"a": {"factor": headroom}, "b": {"factor": None}}},
        }
        (tmp_path / ".mooring" / "status.json").write_text(json.dumps(status))

    shows(0.7, [step])
    mover.look(100.0)
    mover.look(101.0)
    assert mover.lists == 1
    shows(0.9, [step])
    mover.look(101.0 + burst.SETTLES_S)
    assert mover.lists == 2
    shows(1.3, [])
    mover.look(200.0)
    went_well, story = mover.verdict()
    assert went_well
    assert story == [
        "A flood on porto's packets took the headroom down to x 0.70; nothing was proposed before it.",
        "The pipeline moved f from a to b (pause 0.9 s), f from a to b (pause 0.9 s) while it ran.",
        "Every site was below full after that: a had the least headroom, x 1.30.",
    ]


def test_what_is_proposed_before_the_flood_is_a_failure(burst: ModuleType, tmp_path: Path) -> None:
    mover = burst.Mover(tmp_path, SimpleNamespace(at_s=1.0))
    (tmp_path / ".mooring").mkdir()
    status = {"proposal": {"headroom": 2.0, "moves": ["one"]}}
    (tmp_path / ".mooring" / "status.json").write_text(json.dumps(status))
    mover.look(0.0)
    went_well, _ = mover.verdict()
    assert not went_well
