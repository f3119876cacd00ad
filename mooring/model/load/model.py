"""The load model in arrays: what each fragment needs per unit of each variable, and what the sites have.

Without joins and variable selectivities the variables are the stream rates and every load is linear in them
(section 2.2 of the ROD paper). Otherwise further variables are introduced in which the loads are linear again
(section 6.2), and `variable_values` says what they really are at given stream rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from mooring.arrays import Floats, Ints

MANY_DEFINITIONS = 100
"""Introduced variables beyond which those of a level are evaluated together."""
MOST_DENSE_CELLS = 200_000
"""Sites x variables: with fewer, dense arithmetic is the quicker one."""

SparseVector = dict[int, float]
"""Variable -> coefficient."""


class Variable(NamedTuple):
    name: str
    kind: Literal["stream", "pairs", "output"]
    """An external rate, the pairs per second of a join, or the output rate of a variable operator."""


class Definition(NamedTuple):
    """What an introduced variable is: factor x (left . x), times (right . x) for pairs."""

    variable: int
    factor: float
    left: SparseVector
    right: SparseVector | None

    def value(self, x: Floats) -> Floats:
        result = self.factor * _dot(x, self.left)
        return result if self.right is None else result * _dot(x, self.right)


def _dot(x: Floats, vector: SparseVector) -> Floats:
    return np.asarray(x[..., list(vector)] @ np.fromiter(vector.values(), float, len(vector)))


@dataclass(frozen=True, eq=False)
class _Level:
    """Definitions that can be evaluated together."""

    variables: Ints
    factor: Floats
    left: csr_array
    right: csr_array | None

    @classmethod
    def of(cls, definitions: Sequence[Definition], variables: int) -> _Level:
        def matrix(vectors: Sequence[SparseVector]) -> csr_array:
            rows = [row for row, vector in enumerate(vectors) for _ in vector]
            columns = [variable for vector in vectors for variable in vector]
            values = [value for vector in vectors for value in vector.values()]
            return csr_array((values, (rows, columns)), shape=(len(vectors), variables))

        right = [definition.right for definition in definitions if definition.right is not None]
        return cls(
            np.array([definition.variable for definition in definitions]),
            np.array([definition.factor for definition in definitions]),
            matrix([definition.left for definition in definitions]),
            matrix(right) if right else None,
        )


@dataclass(frozen=True, eq=False)
class Arcs:
    """Arcs between fragments, from streams that enter at a site, and to queries; none inside a fragment."""

    source_fragment: Ints
    """-1 where the source is a stream."""
    source_site: Ints
    """The stream's site where the source is a stream, else -1."""
    target_fragment: Ints
    """-1 where the target is a query."""
    target_site: Ints
    """The query's site where the target is a query, else -1."""
    rates: csr_array
    """Arcs x variables: tuples per second on the arc per unit of the variable."""
    comm_us: float
    """CPU microseconds per tuple at each end of an arc whose ends are at different sites."""

    @classmethod
    def none(cls, variables: int) -> Arcs:
        empty = np.empty(0, dtype=np.int64)
        return cls(empty, empty, empty, empty, csr_array((0, variables)), 0.0)

    def ends(self, site_of_fragment: Ints) -> tuple[Ints, Ints]:
        """Site of the source and of the target of every arc."""
        source = np.where(self.source_fragment >= 0, site_of_fragment[self.source_fragment], self.source_site)
        target = np.where(self.target_fragment >= 0, site_of_fragment[self.target_fragment], self.target_site)
        return source, target


@dataclass(frozen=True, eq=False)
class ResourceLoad:
    """What fragments take of a named resource, and what the sites have of it."""

    name: str
    coefficients: csr_array
    """Fragments x variables, per unit of the variable."""
    fixed: Floats
    """Per fragment."""
    limit: Floats
    """Per site."""

    def used(self, site_of_fragment: Ints, values: Floats) -> Floats:
        """Of every site, where the variables have these values."""
        taken = self.coefficients @ values + self.fixed
        return np.asarray(np.bincount(site_of_fragment, taken, len(self.limit)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class LoadModel:
    variables: tuple[Variable, ...]
    """All streams in the problem's order, then the introduced variables."""
    coefficients: csr_array
    """L^o: fragments x variables, cores per unit of the variable, communication left out."""
    operator_coefficients: csr_array
    """The same per operator."""
    capacity_cores: Floats
    lower: Floats
    """Lower bounds of the variables (section 6.1)."""
    present: Floats
    """Values of the variables at the present rates."""
    fixed_cores: Floats
    """Per fragment, load at rate zero."""
    memory_mb: Floats
    memory_limit_mb: Floats
    """Per site; infinite where not limited."""
    pinned_site: Ints
    """Per fragment; -1 where free."""
    arcs: Arcs
    definitions: tuple[Definition, ...] = ()
    parallel: Floats | None = None
    """Per fragment, the cores that it can use at a time; None: one each."""
    resources: tuple[ResourceLoad, ...] = ()

    @classmethod
    def from_coefficients(
        cls,
        coefficients: npt.ArrayLike | csr_array,
        capacity_cores: npt.ArrayLike,
        *,
        lower: npt.ArrayLike | None = None,
        present: npt.ArrayLike | None = None,
        fixed_cores: npt.ArrayLike | None = None,
        memory_mb: npt.ArrayLike | None = None,
        memory_limit_mb: npt.ArrayLike | None = None,
        pinned_site: npt.ArrayLike | None = None,
        arcs: Arcs | None = None,
        parallel: npt.ArrayLike | None = None,
    ) -> LoadModel:
        """A model from numbers alone: one stream per column, one operator and fragment per row.

        >>> model = LoadModel.from_coefficients([[14, 0], [6, 0], [0, 9], [0, 7]], capacity_cores=[1, 1])
        >>> model.site_coefficients(np.array([0, 1, 1, 0]))
        array([[14.,  7.],
               [ 6.,  9.]])
        """
        matrix = csr_array(coefficients, dtype=np.float64)
        fragments, variables = matrix.shape
        capacity = np.atleast_1d(np.asarray(capacity_cores, dtype=np.float64))

        def filled(values: npt.ArrayLike | None, size: int, default: float) -> Floats:
            return np.full(size, default) if values is None else np.asarray(values, dtype=np.float64)

        return cls(
            variables=tuple(Variable(f"s{k + 1}", "stream") for k in range(variables)),
            coefficients=matrix,
            operator_coefficients=matrix,
            capacity_cores=capacity,
            lower=filled(lower, variables, 0.0),
            present=filled(present, variables, 1.0),
            fixed_cores=filled(fixed_cores, fragments, 0.0),
            memory_mb=filled(memory_mb, fragments, 0.0),
            memory_limit_mb=filled(memory_limit_mb, len(capacity), np.inf),
            pinned_site=np.full(fragments, -1)
            if pinned_site is None
            else np.asarray(pinned_site, dtype=np.int64),
            arcs=Arcs.none(variables) if arcs is None else arcs,
            parallel=None if parallel is None else np.asarray(parallel, dtype=np.float64),
        )

    @property
    def cores_of_fragments(self) -> Floats:
        """That each can use at a time."""
        return np.ones(self.fragment_count) if self.parallel is None else self.parallel

    @property
    def site_count(self) -> int:
        return len(self.capacity_cores)

    @property
    def fragment_count(self) -> int:
        return int(self.coefficients.shape[0])

    @property
    def stream_count(self) -> int:
        return len(self.variables) - len(self.definitions)

    @cached_property
    def totals(self) -> Floats:
        """l_k: the load coefficients of each variable, summed over all fragments."""
        return np.asarray(self.coefficients.sum(axis=0)).ravel()

    @cached_property
    def active(self) -> Ints:
        """Variables that load something; the others are left out of the feasible set."""
        return np.flatnonzero(self.totals > 0.0)

    @property
    def capacity_left_cores(self) -> float:
        """C_T: what all sites together have left for tuples; negative when the fixed load is beyond them."""
        return float(self.capacity_cores.sum() - self.fixed_cores.sum())

    def site_capacity_left(self, site_of_fragment: Ints) -> Floats:
        """C_i: capacity less the fixed load placed there."""
        return self.capacity_cores - np.bincount(site_of_fragment, self.fixed_cores, self.site_count)

    @property
    def is_wide(self) -> bool:
        """Whether sites x variables are so many that loads are kept sparse: few streams load one site."""
        return self.site_count * len(self.variables) > MOST_DENSE_CELLS

    def site_coefficients(self, site_of_fragment: Ints) -> Floats:
        """L^n: sites x variables, with both ends of every crossing arc charged (section 6.3)."""
        return np.asarray(self.sparse_site_coefficients(site_of_fragment).toarray())

    def sparse_site_coefficients(self, site_of_fragment: Ints) -> csr_array:
        """The same, as rows of what loads a site."""
        result = _sum_rows(self.coefficients, site_of_fragment, self.site_count)
        if self.arcs.comm_us > 0.0 and len(self.arcs.source_site):
            source, target = self.arcs.ends(site_of_fragment)
            crossing = np.flatnonzero(source != target)
            cost = self.arcs.rates[crossing] * (self.arcs.comm_us / 1e6)
            result = result + _sum_rows(cost, source[crossing], self.site_count)
            result = csr_array(result + _sum_rows(cost, target[crossing], self.site_count))
        return result

    def some_site_coefficients(self, site_of_fragment: Ints, wanted: Ints) -> csr_array:
        """The rows of some sites, from what is placed there."""
        row = np.full(self.site_count, -1)
        row[wanted] = np.arange(len(wanted))
        there = np.flatnonzero(row[site_of_fragment] >= 0)
        result = _sum_rows(self.coefficients[there], row[site_of_fragment[there]], len(wanted))
        if self.arcs.comm_us > 0.0 and len(self.arcs.source_site):
            source, target = self.arcs.ends(site_of_fragment)
            for end in source, target:
                crossing = np.flatnonzero((source != target) & (row[end] >= 0))
                cost = self.arcs.rates[crossing] * (self.arcs.comm_us / 1e6)
                result = csr_array(result + _sum_rows(cost, row[end[crossing]], len(wanted)))
        return result

    def variable_values(self, rates: npt.ArrayLike) -> Floats:
        """All variables at given stream rates (last axis), introduced ones by what they really are."""
        rates = np.asarray(rates, dtype=np.float64)
        if len(self.definitions) > MANY_DEFINITIONS:
            return self._values_by_level(rates)
        x = np.zeros((*rates.shape[:-1], len(self.variables)))
        x[..., : self.stream_count] = rates
        for definition in self.definitions:
            x[..., definition.variable] = definition.value(x)
        return x

    @cached_property
    def independent(self) -> Ints:
        """Variables that follow from no others: stream rates, and outputs whose selectivity varies."""
        varying = [k for k, variable in enumerate(self.variables) if variable.kind == "output"]
        return np.concatenate([np.arange(self.stream_count), np.array(varying, dtype=np.int64)])

    @property
    def bends(self) -> bool:
        """Whether some variable is a product of others: the pairs of a join."""
        return len(self.independent) < len(self.variables)

    def resolved(self, values: npt.ArrayLike) -> Floats:
        """All variables where the independent ones (last axis) have these values: pairs are what they are,
        outputs vary by themselves."""
        values = np.asarray(values, dtype=np.float64)
        x = np.zeros((*values.shape[:-1], len(self.variables)))
        x[..., self.independent] = values
        for definition in self.definitions:
            if definition.right is not None:
                x[..., definition.variable] = definition.value(x)
        return x

    def _values_by_level(self, rates: Floats) -> Floats:
        points = rates.reshape(-1, self.stream_count)
        x = np.zeros((len(self.variables), len(points)))  # as products with sparse matrices need it
        x[: self.stream_count] = points.T
        for level in self._levels:
            values = level.factor[:, None] * (level.left @ x)
            if level.right is not None:
                values *= level.right @ x
            x[level.variables] = values
        return np.asarray(x.T.reshape(*rates.shape[:-1], len(self.variables)))

    @cached_property
    def _levels(self) -> tuple[_Level, ...]:
        """Definitions that use none of each other, those that are used first."""
        depth = [0] * len(self.variables)
        levels: dict[tuple[int, bool], list[Definition]] = {}
        for definition in self.definitions:
            used = [*definition.left, *(definition.right or ())]
            depth[definition.variable] = 1 + max((depth[variable] for variable in used), default=0)
            levels.setdefault((depth[definition.variable], definition.right is None), []).append(definition)
        in_order = (levels[key] for key in sorted(levels))
        return tuple(_Level.of(own, len(self.variables)) for own in in_order)

    def site_loads(self, site_of_fragment: Ints, rates: npt.ArrayLike) -> Floats:
        """True load of every site in cores at given stream rates (last axis), fixed load included."""
        fixed = self.capacity_cores - self.site_capacity_left(site_of_fragment)
        values = self.variable_values(rates)
        if not self.is_wide:
            return np.asarray(values @ self.site_coefficients(site_of_fragment).T + fixed)
        return np.asarray((self.sparse_site_coefficients(site_of_fragment) @ values.T).T + fixed)


def _sum_rows(matrix: csr_array, group: Ints, groups: int) -> csr_array:
    """Rows of a sparse matrix added up by group."""
    rows = len(group)
    gather = csr_array((np.ones(rows), (group, np.arange(rows))), shape=(groups, rows))
    return csr_array(gather @ matrix)
