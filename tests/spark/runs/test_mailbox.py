"""Requests reach the runner once, and nothing but a request of a living asker ever does."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.contracts.mailbox import AbortRequest, MoveRequest, StopNotice
from mooring.errors import EngineError
from mooring.model.placement.placement import FragmentSites
from mooring.spark.runs.mailbox import FileMailbox, this_asker

OLD, MOVES = FragmentSites({"f": "a"}), [("f", "a", "b")]


def test_a_request_is_taken_once_and_answered(tmp_path: Path) -> None:
    box = FileMailbox(tmp_path)
    assert box.take() is None
    name = box.ask(OLD, MOVES)
    assert box.answer(name) is None
    request = box.take()
    assert isinstance(request, MoveRequest)
    assert (request.id, request.old, request.moves) == (name, dict(OLD), MOVES)
    assert box.take() is None
    box.reply(name, {"state": "running"})
    box.reply(name, {"state": "done"})
    assert box.answer(name) == {"version": 1, "state": "done"}
    assert not box.withdraw(name)
    assert os.listdir(box.folder) == []


def test_a_request_can_be_withdrawn_before_it_is_taken(tmp_path: Path) -> None:
    box = FileMailbox(tmp_path)
    assert box.withdraw(box.ask(OLD, MOVES))
    assert box.take() is None


def test_an_abort_and_a_stop_say_who_asks(tmp_path: Path) -> None:
    box = FileMailbox(tmp_path)
    box.ask_abort(this_asker("mooring moves demo --abort"))
    abort = box.take()
    assert isinstance(abort, AbortRequest)
    assert f", process {os.getpid()}: mooring moves demo --abort" in abort.asked_by
    box.announce_stop("somebody")
    stop = box.take()
    assert isinstance(stop, StopNotice)
    assert stop.asked_by == "somebody"


def test_a_request_that_cannot_be_written_is_an_error_of_the_engine(tmp_path: Path) -> None:
    (tmp_path / "requests").write_text("a file where the box should be")
    with pytest.raises(EngineError, match=r"the request cannot be put into .*requests: File exists"):
        FileMailbox(tmp_path).ask(OLD, MOVES)


def put(box: FileMailbox, content: bytes, name: str = "0" * 32) -> None:
    box.folder.mkdir(parents=True, exist_ok=True)
    (box.folder / f"{name}.json").write_bytes(content)


def valid(**changes: object) -> dict[str, object]:
    fields = {"id": "0" * 32, "created_s": time.time(), "asker_pid": os.getpid(), "old": OLD, "moves": MOVES}
    return fields | {"kind": "move", "version": 1} | changes


@pytest.mark.parametrize(
    "changes",
    [
        {"created_s": time.time() - 3600},
        {"created_s": time.time() + 3600},
        {"created_s": float("nan")},
        {"asker_pid": 2**22 + 1},
        {"asker_pid": -1},
        {"id": "../../etc/passwd"},
        {"moves": [["f", "a"]]},
        {"moves": [["f", "a", {"b": 1}]]},
        {"old": ["f"]},
        {"version": 2},
        {"shell": "rm"},
        {"kind": "delete"},
        {"kind": "abort"},
        {"old": {"f" * 1_000_000: "a"}},
    ],
)
def test_what_is_stale_or_malformed_is_dropped(tmp_path: Path, changes: dict[str, object]) -> None:
    box = FileMailbox(tmp_path)
    put(box, json.dumps(valid()).encode())
    assert box.take() is not None
    put(box, json.dumps(valid(**changes)).encode())
    assert box.take() is None
    assert os.listdir(box.folder) == []


@given(st.binary(max_size=200) | st.just(b"[" * 100_000))
@settings(max_examples=60, deadline=None)
def test_no_content_makes_the_runner_fail(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    box = FileMailbox(tmp_path_factory.mktemp("box"))
    put(box, content)
    assert box.take() is None


def test_links_pipes_and_other_names_are_not_read(tmp_path: Path) -> None:
    box = FileMailbox(tmp_path)
    put(box, json.dumps(valid()).encode(), name="outside")
    assert box.take() is None
    (box.folder / f"{'0' * 32}.json").symlink_to(box.folder / "outside.json")
    os.mkfifo(box.folder / f"{'1' * 32}.json")
    (box.folder / f"{'2' * 32}.json").mkdir()
    assert box.take() is None
