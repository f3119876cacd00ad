"""The safety net under every decider: relief for sites that have been too full for some looks.

Whatever a decider is after, sites that are too full come first. Where what it proposes leaves them so, or it
proposes nothing, the relief of `headroom` is proposed in its place, and as what mends a violation.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from mooring.algorithms.headroom.decider import relief
from mooring.arrays import Ints
from mooring.contracts.decider import Proposal
from mooring.contracts.picture import Picture

NET = "safety net"
"""By what its moves are called in journal and ledger."""
_BETTER = 0.9
"""The part of what a decider's proposal leaves too much that a relief may leave, to take its place."""
_PATIENCE = 4
"""Times the looks after which relief does not wait for the decider's own proposal any longer."""


@dataclass
class SafetyNet:
    looks: int
    """In a row at which a site is too full before it is relieved; 0: never."""
    _full: dict[str, int] = field(default_factory=dict)
    """Site that is too full -> for how many looks in a row."""

    def moved(self) -> None:
        """Something was moved: what it led to has to show first."""
        self._full = {}

    def catch(self, proposal: Proposal, picture: Picture) -> Proposal | None:
        """The relief that is proposed instead; None where it is not needed, or there is none."""
        if not self.looks:
            return None
        names = [picture.problem.sites[s].name for s in picture.too_full(picture.sites).tolist()]
        self._full = {name: self._full.get(name, 0) + 1 for name in names}
        longest = max(self._full.values(), default=0)
        if longest < self.looks:
            return None
        offered = relief(picture)
        left = float(picture.excess_cores(_after(offered, picture)).sum())
        by_decider = float(picture.excess_cores(_after(proposal, picture)).sum())
        if longest < self.looks * _PATIENCE and left >= _BETTER * by_decider:
            return None
        if not offered.moves:
            return None
        return replace(offered, reason=f"{_words(names, longest)}: {offered.reason}", violation=True)


def _words(names: Collection[str], looks: int) -> str:
    which = ", ".join(list(names)[:3])
    return f"safety net: {which} {'is' if len(names) == 1 else 'are'} too full for {looks} looks"


def _after(proposal: Proposal, picture: Picture) -> Ints:
    sites, index = picture.sites.copy(), picture.problem.site_index
    rows = {name: f for f, name in enumerate(picture.problem.fragment_names)}
    for each in proposal.moves:
        sites[rows[each.move.fragment]] = index[each.move.to_site]
    return sites
