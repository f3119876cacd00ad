"""The stages of one move, in order, and what holds at each.

An engine announces a stage once it holds, so that a journal can say how far a move was when something cut it
short. Up to `prepared` the fragment still runs at its source; from `stopped` on it may have to be started
again somewhere, and its source is where it goes if anything fails.

| reached  | holds                                                        | a failure then    |
| -------- | ------------------------------------------------------------ | ----------------- |
| begin    | the source runs; the target has been asked to get ready      | changes nothing   |
| prepared | the target has all it needs; the source still runs           | changes nothing   |
| stopped  | the source is being stopped, or about to be fenced off       | hands it back     |
| fenced   | no query of the fragment that was started before can commit  | hands it back     |
| started  | the target runs, past its first batch                        | hands it back     |
| done     | the source's session is closed                               | -                 |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

Stage = Literal["begin", "prepared", "stopped", "fenced", "started", "done"]
OnFailure = Literal["changes nothing", "hands it back"]
Reached = Callable[[Stage], None]
"""Called with every stage between `begin` and `done` once it holds; a move ends if it raises."""

NEXT: Mapping[Stage, Stage] = {
    "begin": "prepared",
    "prepared": "stopped",
    "stopped": "fenced",
    "fenced": "started",
    "started": "done",
}
ON_FAILURE: Mapping[Stage, OnFailure] = {
    "begin": "changes nothing",
    "prepared": "changes nothing",
    "stopped": "hands it back",
    "fenced": "hands it back",
    "started": "hands it back",
}
STAGES: tuple[Stage, ...] = ("prepared", "stopped", "fenced", "started")
"""What an engine announces; `begin` and `done` are the journal's."""


def ignored(stage: Stage) -> None:
    """For moves whose stages nobody writes down."""


class Stages:
    """How far a move is: refuses to skip a stage, and knows what a failure means now."""

    def __init__(self, reached: Reached = ignored) -> None:
        self._announce = reached
        self.at: Stage = "begin"

    def reach(self, stage: Stage) -> None:
        """The stage holds; what a failure means from now on goes by it, also if announcing it fails."""
        assert NEXT[self.at] == stage, f"{stage} cannot follow {self.at}"
        self.at = stage
        self._announce(stage)

    @property
    def on_failure(self) -> OnFailure:
        return ON_FAILURE[self.at]
