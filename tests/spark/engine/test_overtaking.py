"""A move overtakes its source: fence, start and stop come in an order in which two never write one batch."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.disk import DISK
from mooring.errors import EngineError
from mooring.spark.engine import moving
from mooring.spark.engine.fragment_query import RunningFragment
from mooring.spark.engine.fragment_registry import Roster
from mooring.spark.engine.moving import Mover

if TYPE_CHECKING:
    from mooring.model.deployment.move_stages import Stage


@dataclass
class World:
    """Logs of one checkpoint, and what happens in which order."""

    checkpoint: Path
    happened: list[str] = field(default_factory=list)
    polls: int = 0
    ends_at: int | None = None
    """After so many polls the batch under way is committed."""
    fails: bool = False

    def log(self, kind: str, batch: int) -> None:
        folder = self.checkpoint / kind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(batch)).write_text("v1")

    def wait(self, seconds: float) -> None:
        self.polls += 1
        if self.polls == self.ends_at:
            self.log("commits", 1)

    def begin(self, work: Callable[[], None]) -> Future[None]:
        """A thread that comes to run when somebody waits for it."""
        world = self

        class Later(Future[None]):
            def exception(self, timeout: float | None = None) -> BaseException | None:
                if not self.done():
                    work()
                    self.set_result(None)
                return super().exception(timeout)

        world.happened.append("told to stop")
        return Later()

    def launch(self, prepared: object) -> RunningFragment:
        self.happened.append("launched")
        query = SimpleNamespace(isActive=True)
        return RunningFragment("f", "b", cast(Any, None), "new", cast(Any, query))

    def start(self, name: str, site: str) -> None:
        self.happened.append(f"started at {site}")


def moved(
    world: World, monkeypatch: pytest.MonkeyPatch, reached: Callable[[Stage], None] = lambda stage: None
) -> None:
    def first_batch(*args: object, **more: object) -> str | None:
        world.happened.append("first batch")
        return "no room" if world.fails else None

    monkeypatch.setattr(moving, "first_batch", first_batch)
    roster = Roster()
    source = SimpleNamespace(isActive=True, stop=lambda: world.happened.append("stopped"))
    roster.add(RunningFragment("f", "a", cast(Any, None), "old", cast(Any, source)))
    layout = SimpleNamespace(
        checkpoint=lambda name: world.checkpoint,
        disk=DISK,
        moves_as=lambda name: "stateless",
        pipeline=SimpleNamespace(flows={}),
        fragments={"f": SimpleNamespace(operators=())},
    )
    prepared = SimpleNamespace(
        fragment=SimpleNamespace(name="f"),
        site="b",
        starter=None,
        closed=True,
        session_id="new",
        to_the_end=False,
        discard=lambda: None,
    )
    run = SimpleNamespace(
        layout=layout,
        roster=roster,
        sites=SimpleNamespace(of=lambda site: SimpleNamespace(endpoint=None, slots=1)),
        calls=SimpleNamespace(ask=lambda site, call, *rest, **more: call(), silence_s=1.0),
        progress=SimpleNamespace(batch_s=lambda name: 1.0, take=lambda old: None),
        warmth=SimpleNamespace(ensure=lambda *a, **k: False, note=lambda *a, **k: None),
        is_stateful=lambda name: False,
        prepare=lambda name, site: prepared,
        fence=lambda prepared: world.happened.append("fenced"),
        launch=world.launch,
        let_go=lambda old: world.happened.append("let go"),
        start=world.start,
    )
    mover = Mover(cast(Any, run), now_s=lambda: 0.01 * world.polls, wait_s=world.wait, beside=world)
    mover.move("f", "b", reached)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "000001")
    made.log("offsets", 0)
    made.log("commits", 0)
    return made


def test_between_two_batches_the_target_starts_before_the_source_has_stopped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved(world, monkeypatch)
    assert world.happened == ["fenced", "told to stop", "launched", "first batch", "stopped", "let go"]


def test_a_batch_that_was_planned_is_not_written_by_both(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not end in time: the target waits until the source has stopped."""
    world.log("offsets", 1)
    moved(world, monkeypatch)
    assert world.happened == ["fenced", "told to stop", "stopped", "let go", "launched", "first batch"]


def test_the_fence_waits_for_the_end_of_the_batch_under_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.log("offsets", 1)
    world.ends_at = 7
    moved(world, monkeypatch)
    assert world.polls == 7
    assert world.happened == ["fenced", "told to stop", "launched", "first batch", "stopped", "let go"]


def test_a_target_that_fails_gives_back_what_has_stopped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fails = True
    with pytest.raises(EngineError, match="runs at 'a' again"):
        moved(world, monkeypatch)
    assert world.happened[-3:] == ["stopped", "let go", "started at a"]


@pytest.mark.parametrize("stage", ["stopped", "fenced", "started"])
def test_a_journal_that_cannot_be_written_from_the_stop_on_gives_the_fragment_back(
    world: World, monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    def full(reached: Stage) -> None:
        if reached == stage:
            raise EngineError("no room")

    with pytest.raises(EngineError, match="no room"):
        moved(world, monkeypatch, full)
    assert world.happened[-3:] == ["stopped", "let go", "started at a"]
