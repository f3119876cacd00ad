"""What one turn of a run found, and where a run is written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mooring.contracts.decider import Observation, Proposal
from mooring.contracts.engine import MoveReport
from mooring.controller.adaptation import Considered
from mooring.controller.known_model import KnownModel
from mooring.controller.run_headroom import RunHeadroom
from mooring.controller.trouble_list import NamedTrouble
from mooring.model.placement.placement import FragmentSites


@dataclass(frozen=True)
class Look:
    """What one turn of the loop found and concluded."""

    observation: Observation
    headroom: RunHeadroom
    """The one that everything shows."""
    considered: Considered
    """What is proposed, and what came of it."""
    model: KnownModel | None = None
    """What the headroom and the proposal are worked out with; None: not enough is known."""
    under_way: Mapping[str, object] | None = None
    """The list of moves that is being carried out."""
    adapting: Mapping[str, object] = field(default_factory=dict)
    """Who decides, whether it may act, why it did nothing, and the ledger, for a status file."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Sites that are kept empty, and who asked for it."""
    took_s: float = 0.0
    """How long it took to look and to decide."""
    edit: str = ""
    """What came of the last edit of the project's settings while it runs, in words."""
    troubles: Sequence[NamedTrouble] = ()
    """The most urgent first."""
    incidents: Sequence[tuple[float, str]] = ()
    """What happened last: seconds since 1970, and words."""
    restarts: Mapping[str, int] = field(default_factory=dict)
    """Per fragment, how often it was started again, moves aside."""

    @property
    def proposal(self) -> Proposal | None:
        """None where too little is known to decide anything."""
        return self.considered.proposal

    def remarks(self) -> dict[str, object]:
        """For a status file."""
        return {
            "stream_rates": dict(self.observation.stream_rates),
            "headroom": self.headroom.as_json(),
            "proposal": None if self.proposal is None else self.proposal.as_json(),
            "list": None if self.under_way is None else dict(self.under_way),
            "adapting": dict(self.adapting),
            "model": None if self.model is None else self.model.as_json(),
            "left_sites": dict(self.left),
            "look_took_s": self.took_s,
            "edit": self.edit,
            "trouble_list": [each.as_json() for each in self.troubles],
            "incidents": [{"at_s": at_s, "what": what} for at_s, what in self.incidents],
            "restarts": dict(self.restarts),
            "trigger_s": self.observation.measured.trigger_s or None,
        }


class Book(Protocol):
    """Where a run is written down: a status file and a report, or a list in memory."""

    def write(self, troubles: Mapping[str, str], remarks: Mapping[str, object]) -> None:
        """The engine was looked at: what is wrong, and what was measured and proposed, for a status file."""
        ...

    def incident(self, at_s: float, what: str) -> None:
        """Something that happened, at a second of the run."""
        ...

    def placed(self, sites: FragmentSites) -> None:
        """Where everything is after moves or a recovery."""
        ...

    def moved(self, at_s: float, reports: Sequence[MoveReport], asked_by: str) -> None:
        """A list of moves was carried out, at a second of the run."""
        ...

    def noticed(
        self, sites: FragmentSites, troubles: Mapping[str, str], under_way: Mapping[str, object] | None
    ) -> None:
        """Between two looks: what runs, what is wrong, before something slow is done about it, and how far
        the list of moves is that is being carried out.
        """
        ...
