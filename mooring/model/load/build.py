"""From a problem to its load model: rates through the graph, linearised with as few variables as possible.

Rates travel as sparse linear forms over the variables. Two things are not linear (section 6.2): the output of
an operator whose selectivity varies, and the pairs a window join meets. Each gets a variable, but only where
some load depends on it, and joins whose pairs are proportional to each other (the same two streams behind
constant selectivities) share one. An operator that an engine carries out as a join has such pairs once a run
has measured them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.sparse import csr_array

from mooring.arrays import Floats, Ints
from mooring.model.load.model import Arcs, Definition, LoadModel, ResourceLoad, SparseVector, Variable
from mooring.model.problem.goals import Need
from mooring.model.problem.operator import Operator
from mooring.model.problem.problem import Problem

_PairsKey = tuple[tuple[tuple[int, float], ...], ...]


def build_load_model(problem: Problem) -> LoadModel:
    forms = _RateForms(problem)
    operator_matrix = _sparse_rows(forms.loads, len(forms.variables))
    fragment_of = np.empty(len(problem.operators), dtype=np.int64)
    for f, members in enumerate(problem.fragments):
        fragment_of[list(members)] = f
    gather = csr_array(
        (np.ones(len(fragment_of)), (fragment_of, np.arange(len(fragment_of)))),
        shape=(len(problem.fragments), len(fragment_of)),
    )
    model = LoadModel(
        variables=tuple(forms.variables),
        coefficients=csr_array(gather @ operator_matrix),
        operator_coefficients=operator_matrix,
        capacity_cores=problem.capacity_cores,
        lower=np.zeros(len(forms.variables)),
        present=np.zeros(len(forms.variables)),
        fixed_cores=np.array([max(problem.operators[j].fixed_cores for j in f) for f in problem.fragments]),
        memory_mb=np.array([sum(problem.operators[j].memory_mb for j in f) for f in problem.fragments]),
        memory_limit_mb=np.array([np.inf if s.memory_mb is None else s.memory_mb for s in problem.sites]),
        pinned_site=_pins(problem),
        arcs=_arcs(problem, forms, fragment_of),
        definitions=tuple(forms.definitions),
        parallel=np.array([max(problem.operators[j].parallel for j in f) for f in problem.fragments]),
        resources=_resources(problem, forms, gather),
    )
    model.present[:] = model.variable_values(problem.rates)
    model.lower[:] = forms.lower_bounds(problem)
    return model


def join_sides(problem: Problem) -> dict[int, tuple[Floats, Floats]]:
    """Operators that an engine carries out as joins: the rates of their first input and of all others (of the
    same one, where it is joined with itself), per unit of each variable.
    """
    forms, found = _RateForms(problem), dict[int, tuple[Floats, Floats]]()
    for j, operator in enumerate(problem.operators):
        if operator.moved_as == "join" and operator.kind != "join" and operator.load is None:
            first, *others = forms.inputs_of(j)
            sides = _sparse_rows([first, _sum(others) or first], len(forms.variables)).toarray()
            found[j] = sides[0], sides[1]
    return found


class _RateForms:
    """Output rate of every node and load of every operator, as linear forms over the variables."""

    def __init__(self, problem: Problem) -> None:
        self.variables = [Variable(stream.name, "stream") for stream in problem.streams]
        self.definitions: list[Definition] = []
        self.outputs: list[SparseVector] = [{k: 1.0} for k in range(len(problem.streams))]
        self.outputs += [{} for _ in problem.operators]
        self.loads: list[SparseVector] = [{} for _ in problem.operators]
        self.taken: list[SparseVector] = [{} for _ in problem.operators]
        """Input tuples per second, or pairs, of operators that take a resource per tuple."""
        self._pairs: dict[_PairsKey, tuple[int, float]] = {}
        self._varying: dict[str, int] = {}
        self._problem = problem
        matters = _outputs_that_matter(problem)
        for j in problem.graph.order:
            self._add(j, problem.operators[j], matters[j])

    def inputs_of(self, j: int) -> list[SparseVector]:
        return [_sum(self.outputs[node] for node in port) for port in self._problem.graph.ports[j]]

    def _add(self, j: int, operator: Operator, output_matters: bool) -> None:
        node = self._problem.graph.stream_count + j
        if operator.load is not None:
            index = self._problem.stream_index
            self.loads[j] = {index[stream]: cores for stream, cores in operator.load.items() if cores > 0.0}
            return
        inputs = self.inputs_of(j)
        if operator.kind == "join":
            if operator.cost_us > 0.0 or output_matters or _takes(operator):
                assert operator.window_s is not None
                pairs = _scaled(self._pairs_of(operator, operator.window_s, *inputs), operator.share)
                self.taken[j] = pairs
                self.loads[j] = _scaled(pairs, operator.cost_us / 1e6)
                self.outputs[node] = _scaled(pairs, operator.selectivity)
        else:
            shares = [_scaled(form, operator.share) for form in inputs]
            ports = list(zip(operator.inputs, shares, strict=True))
            self.taken[j] = _sum(shares) if _takes(operator) else {}
            self.loads[j] = _sum(_scaled(form, operator.cost_us_of(name) / 1e6) for name, form in ports)
            self.outputs[node] = _sum(_scaled(form, operator.selectivity_of(name)) for name, form in ports)
            if (known := operator.pairs) is not None:
                sides = inputs[0], _sum(inputs[1:]) or inputs[0]
                pairs = _scaled(self._pairs_of(operator, known.per_product_s, *sides), operator.share)
                self.loads[j] = _sum((self.loads[j], _scaled(pairs, known.cost_us / 1e6)))
                self.outputs[node] = pairs
        if operator.variable:
            self.outputs[node] = self._varying_output(operator, self.outputs[node]) if output_matters else {}

    def _pairs_of(
        self, join: Operator, per_product_s: float, one: SparseVector, other: SparseVector
    ) -> SparseVector:
        """Pairs per second of the whole join as a multiple of a variable, new or shared."""
        (left, left_sum), (right, right_sum) = _normalised(one), _normalised(other)
        factor = per_product_s * left_sum * right_sum
        if factor == 0.0:
            return {}
        key = tuple(sorted((_key(left), _key(right))))
        if key not in self._pairs:
            variable = len(self.variables)
            self.variables.append(Variable(f"pairs of {join.logical_name}", "pairs"))
            self.definitions.append(Definition(variable, factor, left, right))
            self._pairs[key] = (variable, factor)
        variable, first_factor = self._pairs[key]
        return {variable: factor / first_factor}

    def _varying_output(self, operator: Operator, nominal: SparseVector) -> SparseVector:
        """Instances of a split operator share one variable: its whole output, of which each has its share."""
        if not nominal:
            return {}
        name = operator.logical_name
        if name not in self._varying:
            self._varying[name] = len(self.variables)
            self.variables.append(Variable(f"output of {name}", "output"))
            whole = _scaled(nominal, 1.0 / operator.share) if operator.share > 0.0 else nominal
            self.definitions.append(Definition(self._varying[name], 1.0, whole, None))
        return {self._varying[name]: operator.share}

    def lower_bounds(self, problem: Problem) -> Floats:
        """Minimum rates carried through joins; an output whose selectivity varies may fall to nothing."""
        x = np.zeros(len(self.variables))
        x[: len(problem.streams)] = problem.min_rates
        for definition in self.definitions:
            if definition.right is not None:
                x[definition.variable] = definition.value(x)
        return x


def _outputs_that_matter(problem: Problem) -> list[bool]:
    """Per operator: does any load depend on its output rate?"""
    graph = problem.graph
    matters = [False] * len(problem.operators)
    read_by_query = {query.reads for query in problem.queries}
    for j in reversed(graph.order):
        operator, readers = problem.operators[j], graph.readers[graph.stream_count + j]
        communicates = problem.network.comm_us > 0.0 and (readers or operator.logical_name in read_by_query)
        matters[j] = bool(communicates) or any(
            matters[r]
            or _takes(problem.operators[r])
            or any(problem.operators[r].cost_us_of(name) > 0.0 for name in problem.operators[r].inputs)
            for r in readers
        )
    return matters


def _takes(operator: Operator) -> bool:
    """Whether it takes a resource per tuple."""
    return any(need.per_tuple > 0.0 for need in (operator.needs or {}).values())


def _resources(problem: Problem, forms: _RateForms, gather: csr_array) -> tuple[ResourceLoad, ...]:
    """Of every resource that some operator needs."""
    needed = dict.fromkeys(name for operator in problem.operators for name in operator.needs or ())
    found = []
    for name in needed:
        own = [(operator.needs or {}).get(name, Need()) for operator in problem.operators]
        rows = [_scaled(form, need.per_tuple) for form, need in zip(forms.taken, own, strict=True)]
        fixed = np.array([need.fixed for need in own])
        limit = np.array([(site.resources or {}).get(name, 0.0) for site in problem.sites])
        per_unit = csr_array(gather @ _sparse_rows(rows, len(forms.variables)))
        found.append(ResourceLoad(name, per_unit, np.asarray(gather @ fixed), limit))
    return tuple(found)


def _pins(problem: Problem) -> Ints:
    result = np.full(len(problem.fragments), -1, dtype=np.int64)
    for f, members in enumerate(problem.fragments):
        for j in members:
            site = problem.operators[j].site
            if site is not None:
                result[f] = problem.site_index[site]
    return result


def _arcs(problem: Problem, forms: _RateForms, fragment_of: Ints) -> Arcs:
    graph = problem.graph
    rows: list[tuple[int, int, int, int]] = []
    rates: list[SparseVector] = []
    stream_sites = [-1 if s.site is None else problem.site_index[s.site] for s in problem.streams]
    for j, ports in enumerate(graph.ports):
        for node in (node for port in ports for node in port):
            if node >= graph.stream_count:
                source, source_site = int(fragment_of[node - graph.stream_count]), -1
            else:
                source, source_site = -1, stream_sites[node]
            if source == fragment_of[j] or (source < 0 and source_site < 0):
                continue
            rows.append((source, source_site, int(fragment_of[j]), -1))
            rates.append(_scaled(forms.outputs[node], problem.operators[j].share))
    instances: dict[str, list[int]] = {}
    for j, operator in enumerate(problem.operators):
        instances.setdefault(operator.logical_name, []).append(j)
    for query in problem.queries:
        for j in instances[query.reads]:
            rows.append((int(fragment_of[j]), -1, -1, problem.site_index[query.site]))
            rates.append(forms.outputs[graph.stream_count + j])
    ends = np.array(rows, dtype=np.int64).reshape(-1, 4)
    per_variable = _sparse_rows(rates, len(forms.variables))
    return Arcs(ends[:, 0], ends[:, 1], ends[:, 2], ends[:, 3], per_variable, problem.network.comm_us)


def _sum(forms: Iterable[SparseVector]) -> SparseVector:
    total: SparseVector = {}
    for form in forms:
        for k, value in form.items():
            total[k] = total.get(k, 0.0) + value
    return total


def _scaled(form: SparseVector, factor: float) -> SparseVector:
    return {k: value * factor for k, value in form.items()} if factor != 0.0 else {}


def _normalised(form: SparseVector) -> tuple[SparseVector, float]:
    total = sum(form.values())
    return (_scaled(form, 1.0 / total), total) if total > 0.0 else ({}, 0.0)


def _key(form: SparseVector) -> tuple[tuple[int, float], ...]:
    return tuple(sorted((k, round(value, 12)) for k, value in form.items()))


def _sparse_rows(rows: list[SparseVector], columns: int) -> csr_array:
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=indptr[1:])
    indices = np.fromiter((k for row in rows for k in row), np.int64, indptr[-1])
    data = np.fromiter((value for row in rows for value in row.values()), np.float64, indptr[-1])
    return csr_array((data, indices, indptr), shape=(len(rows), columns))
