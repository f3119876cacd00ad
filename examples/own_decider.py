"""A decider of one's own: of the fullest site, the fragment leaves whose move makes most room.

In this folder:

    mooring simulate flood.yaml --adapt own_decider:Evener --set most_used=0.7
    mooring run PROJECT --adapt own_decider:Evener --adapt-set most_used=0.7 --act apply
"""

from dataclasses import dataclass
from typing import ClassVar

from mooring import InputError, Picture, Proposal


@dataclass(frozen=True)
class Evener:
    name: ClassVar[str] = "evener"

    most_used: float = 0.8
    """The share of its cores that a site may use before something leaves it."""

    def __post_init__(self) -> None:
        if not 0.0 < self.most_used <= 1.0:
            raise InputError(f"found {self.most_used}, expected more than 0 and at most 1", field="most_used")

    def decide(self, picture: Picture) -> Proposal:
        loads = picture.predict(picture.sites).site_loads_cores
        alive = [site for site, lost in zip(picture.problem.sites, picture.lost, strict=True) if not lost]
        used = {site.name: loads[site.name] / site.capacity for site in alive}
        full, empty = max(used, key=used.__getitem__), min(used, key=used.__getitem__)
        said = f"{full} uses {used[full]:.0%} of its cores"
        stay = picture.propose({}, f"{said}, and no move would make more room")
        if used[full] <= self.most_used:
            return picture.propose({}, f"{said}, which is no more than {self.most_used:.0%}")
        there = [name for name, site in picture.placement.by_fragment().items() if site == full]
        rows = {name: row for row, name in enumerate(picture.problem.fragment_names)}
        movable = [name for name in there if picture.movable[rows[name]]]
        moved = [picture.propose({name: empty}, f"{said}, {empty} least") for name in movable]
        return max([stay, *moved], key=lambda proposal: proposal.predicted.headroom)
