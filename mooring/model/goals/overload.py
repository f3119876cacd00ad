"""What a placement overloads at the rates of now, and whether another one would not.

A feasible set, however large, may leave out the point where the rates are. So this comes first: sites beyond
their cores at the present or the minimum rates, and links beyond their bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats
from mooring.model.goals.mending import mended
from mooring.model.goals.rule_kernels import ENOUGH
from mooring.model.goals.rules import PRESENT, RuleBook
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import Placement
from mooring.model.placement.site_limits import SLACK
from mooring.quantity import decimal, quantity

_NAMED = 3
"""Sites or links that a sentence names."""


@dataclass(frozen=True)
class PresentOverload:
    """Shares of the capacity, above one, by site or by link."""

    sites: Mapping[str, float]
    """At the present rates."""
    minimum: Mapping[str, float]
    """At the minimum rates."""
    links: Mapping[str, tuple[float, float]]
    """Bytes per second at the present rates, and what the link carries."""
    avoidable: bool | None
    """Whether another placement overloads nothing; None: not known."""
    why: str
    """What makes it unavoidable, or who avoids it."""

    @property
    def named(self) -> str:
        """In a few words."""
        used = {**self.sites, **{name: flow / most for name, (flow, most) in self.links.items()}}
        worst = sorted(used.items(), key=lambda each: -each[1])[:_NAMED]
        return _listed([f"{name} ({share:.0%})" for name, share in worst], len(used))

    @property
    def sentence(self) -> str:
        parts = []
        if self.sites:
            parts.append(f"at the present rates {_needs(self.sites)}")
        if self.minimum:
            parts.append(f"at the minimum rates {_needs(self.minimum)}")
        if self.links:
            each = (
                f"{name} carries {quantity(flow, 'B/s')} of {quantity(most, 'B/s')}"
                for name, (flow, most) in _largest(self.links)
            )
            parts.append("between sites, " + _listed(list(each), len(self.links)))
        return f"This placement overloads: {'; '.join(parts)}. {self.why}"

    def as_json(self) -> dict[str, object]:
        return {
            "sites": dict(self.sites),
            "minimum": dict(self.minimum),
            "links": {name: {"flow": flow, "bandwidth": most} for name, (flow, most) in self.links.items()},
            "avoidable": self.avoidable,
        }


def _largest(links: Mapping[str, tuple[float, float]]) -> list[tuple[str, tuple[float, float]]]:
    return sorted(links.items(), key=lambda each: -each[1][0] / max(each[1][1], 1e-300))[:_NAMED]


def _needs(used: Mapping[str, float]) -> str:
    worst = sorted(used.items(), key=lambda each: -each[1])[:_NAMED]
    return _listed([f"{name} needs {share:.0%} of its cores" for name, share in worst], len(used))


def _listed(named: list[str], count: int) -> str:
    if count > len(named):
        return ", ".join(named) + f" and {count - len(named)} more"
    return " and ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else named[0]


def overload_of(model: LoadModel, placement: Placement) -> PresentOverload | None:
    """None where everything is carried."""
    problem, sites = placement.problem, placement.site_of_fragment
    names = [site.name for site in problem.sites]

    def beyond(rates: Floats) -> dict[str, float]:
        loads = np.atleast_1d(model.site_loads(sites, rates))
        over = np.flatnonzero(loads > model.capacity_cores * (1.0 + SLACK))
        return {names[i]: float(loads[i] / model.capacity_cores[i]) for i in over.tolist()}

    present = beyond(problem.rates)
    minimum = beyond(problem.min_rates) if present and problem.min_rates.any() else {}
    if not present and problem.network.bandwidth is None:
        return None
    book = RuleBook(model, problem, reserve=0.0)
    links = _full_links(book, placement, names)
    if not present and not links:
        return None
    avoidable, why = _verdict(book, placement)
    return PresentOverload(present, minimum, links, avoidable, why)


def _full_links(book: RuleBook, placement: Placement, names: list[str]) -> dict[str, tuple[float, float]]:
    most = book.rules.bandwidth
    if not most.size:
        return {}
    flow = book.held(placement.site_of_fragment).links
    found = zip(*np.nonzero(flow > most * (1.0 + SLACK)), strict=True)
    return {f"{names[i]} to {names[j]}": (float(flow[i, j]), float(most[i, j])) for i, j in found}


def _verdict(book: RuleBook, placement: Placement) -> tuple[bool | None, str]:
    rules = book.down_to(PRESENT)
    if book.least_broken(rules) > ENOUGH:
        return False, f"No placement carries this load: {_unavoidable(book)}."
    found = mended(book, placement.site_of_fragment, np.random.default_rng(0))
    if book.broken(found, rules) == 0.0:
        moved = int((found != placement.site_of_fragment).sum())
        elsewhere = f"{moved} of {len(found)} fragments elsewhere"
        return True, f"Another placement carries it all, with {elsewhere}: plan with --policy auto."
    return None, "A search found no placement that carries it all."


def _unavoidable(book: RuleBook) -> str:
    for plane in book.planes:
        if plane.tier < PRESENT:
            continue
        need, room = float(plane.demand.sum()), float(plane.capacity.sum())
        if need > room * (1.0 + SLACK):
            return f"it needs {decimal(need)} cores, and all sites together have {decimal(room)}"
        largest = int(np.argmax(plane.demand))
        if plane.demand[largest] > plane.capacity.max() * (1.0 + SLACK):
            name = "one fragment" if book.problem is None else repr(book.problem.fragment_names[largest])
            return (
                f"{name} alone needs {decimal(float(plane.demand[largest]))} cores, and the largest site has "
                f"{decimal(float(plane.capacity.max()))}"
            )
    return "the links or sites are too small"
