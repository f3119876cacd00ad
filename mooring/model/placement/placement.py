"""A placement: the site of every fragment, and so of every operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NewType

import numpy as np

from mooring.arrays import Ints
from mooring.errors import InputError
from mooring.model.problem.problem import Problem
from mooring.model.problem.reading.fields import refuse_reference

OperatorSites = NewType("OperatorSites", Mapping[str, str])
"""Operator -> site, by name: what plan documents hold and people write."""
FragmentSites = NewType("FragmentSites", Mapping[str, str])
"""Fragment -> site, by name: what engines carry out, moves change and journals remember. While something is
being started or has failed, the fragments that run nowhere are missing.
"""

_SHOWN = 8
"""Fragments that a placement names where it is shown in one line."""


@dataclass(frozen=True, eq=False, repr=False)
class Placement:
    problem: Problem
    site_of_fragment: Ints
    """Index into the problem's sites, per fragment of the problem."""
    rejected: Mapping[str, str] = field(default_factory=dict)
    """Queries that were turned away, each with the reason; `problem` is what is left without them."""
    notes: tuple[str, ...] = ()
    """Sentences of the policy on how it came to this placement."""

    def __post_init__(self) -> None:
        sites = np.array(self.site_of_fragment, dtype=np.int64)
        if sites.shape != (len(self.problem.fragments),):
            raise ValueError(f"{sites.shape} sites for {len(self.problem.fragments)} fragments")
        sites.flags.writeable = False
        object.__setattr__(self, "site_of_fragment", sites)

    def __repr__(self) -> str:
        shown = [f"{name}: {site}" for name, site in list(self.by_fragment().items())[:_SHOWN]]
        more = len(self.site_of_fragment) - len(shown)
        return f"Placement({', '.join(shown)}{f', and {more} more' if more else ''})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Placement)
            and np.array_equal(self.site_of_fragment, other.site_of_fragment)
            and self.rejected == other.rejected
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def site_of_operator(self) -> Ints:
        return np.asarray(self.site_of_fragment[self.problem.fragment_of_operator])

    def as_dict(self) -> OperatorSites:
        """Operator -> site, in the problem's order."""
        names = [site.name for site in self.problem.sites]
        there = zip(self.problem.operators, self.site_of_operator.tolist(), strict=True)
        return OperatorSites({operator.name: names[site] for operator, site in there})

    def by_fragment(self) -> FragmentSites:
        """Fragment -> site, in the problem's order."""
        sites = self.problem.sites
        return FragmentSites(
            {
                name: sites[site].name
                for name, site in zip(self.problem.fragment_names, self.site_of_fragment, strict=True)
            }
        )

    @classmethod
    def from_fragments(cls, problem: Problem, sites: FragmentSites) -> Placement:
        """Every fragment once, at a known site; `InputError` otherwise."""
        names = set(problem.fragment_names)
        unknown = [name for name in sites if name not in names]
        missing = [name for name in problem.fragment_names if name not in sites]
        if unknown or missing:
            what = f"no fragment {unknown[0]!r}" if unknown else f"no site for the fragment {missing[0]!r}"
            raise InputError(
                f"found {what}, expected one site for each of {', '.join(problem.fragment_names)}",
                field="placement",
            )
        for name, site in sites.items():
            if site not in problem.site_index:
                raise InputError(
                    f"found {site!r}, expected one of {', '.join(problem.site_index)}",
                    field=f"placement.{name}",
                )
        return cls(problem, np.array([problem.site_index[sites[name]] for name in problem.fragment_names]))

    @classmethod
    def from_dict(cls, problem: Problem, sites: Mapping[str, str]) -> Placement:
        """Every operator placed once, on a known site, with its fragment; `InputError` otherwise."""
        for name in sites:
            if name not in problem.operator_index:
                refuse_reference(
                    name, problem.operator_index, f"placement.{name}", "an operator of the problem"
                )
        result = np.empty(len(problem.fragments), dtype=np.int64)
        for f, members in enumerate(problem.fragments):
            names = [problem.operators[j].name for j in members]
            for name in names:
                if name not in sites:
                    raise InputError(f"found no site for operator {name!r}", field="placement")
                if sites[name] not in problem.site_index:
                    refuse_reference(str(sites[name]), problem.site_index, f"placement.{name}", "a site")
            apart = next((name for name in names if sites[name] != sites[names[0]]), None)
            if apart is not None:
                raise InputError(
                    f"found {names[0]!r} at {sites[names[0]]!r} and {apart!r} at {sites[apart]!r}, "
                    f"expected fragment {problem.fragment_names[f]!r} together",
                    field=f"placement.{apart}",
                )
            result[f] = problem.site_index[sites[names[0]]]
        return cls(problem, result)


def operators_at(problem: Problem, sites: FragmentSites) -> OperatorSites:
    """Operator -> site, of the fragments that are somewhere."""
    return OperatorSites(
        {
            problem.operators[j].name: sites[name]
            for name, members in zip(problem.fragment_names, problem.fragments, strict=True)
            if name in sites
            for j in members
        }
    )
