"""The work of a tuple in the fragment that it enters, through all its operators."""

from __future__ import annotations

import numpy as np

from mooring.arrays import Floats
from mooring.model.load.queued.many_placements import ManyPlacements
from mooring.model.load.queued.steps import StepArc
from mooring.model.problem.problem import Problem


class Inside:
    def __init__(self, problem: Problem, many: ManyPlacements) -> None:
        self.many, self.template = many, many.template
        self.order = [int(n) for n in self.template.order]
        self.fragments = problem.fragments
        self.streams = problem.graph.stream_count

    def of(self, entry: int, leaving: int | None) -> tuple[float, float, float, float]:
        """Core-seconds of a message, mean and variance; core-seconds until it leaves; tuples that leave."""
        arc = self.many.arcs[entry]
        assert arc.reader is not None
        fragment = int(self.template.fragment_of[arc.reader])
        work, variance = arc.work.mean, arc.work.variance
        made, age = {arc.reader: arc.outputs.mean}, {arc.reader: until_made(arc)}
        if len(self.fragments[fragment]) > 1:
            for node in self.order:
                if node not in made:
                    continue
                for a in range(self.template.out_start[node], self.template.out_start[node + 1]):
                    inner = self.many.arcs[a]
                    if inner.reader is None or self.template.fragment_of[inner.reader] != fragment:
                        continue
                    tuples = made[node] * inner.share
                    work += tuples * inner.work.mean
                    variance += tuples * inner.work.variance
                    before, born = made.get(inner.reader, 0.0), age.get(inner.reader, 0.0)
                    more, here = tuples * inner.outputs.mean, age[node] + until_made(inner)
                    made[inner.reader] = before + more
                    if before + more > 0.0:
                        age[inner.reader] = (before * born + more * here) / (before + more)
        if leaving is None:
            return work, variance, max(age.values()), 0.0
        last = self.many.arcs[leaving]
        return work, variance, age.get(last.producer, 0.0), made.get(last.producer, 0.0) * last.share


def until_made(arc: StepArc) -> float:
    """Core-seconds from when a tuple is taken up until what comes of it is there."""
    return arc.work.mean + (arc.covariance / arc.outputs.mean if arc.outputs.mean > 0.0 else 0.0)


def fragment_flows(problem: Problem, many: ManyPlacements) -> Floats:
    """Per fragment the totals (`rules`) of all that enters it, if nothing else were at its site."""
    inside, weights, template = Inside(problem, many), many.weights, many.template
    flows = np.zeros((len(problem.fragments), 6))
    for a, arc in enumerate(many.arcs):
        if arc.reader is None or arc.rate <= 0.0:
            continue
        fragment = int(template.fragment_of[arc.reader])
        if template.fragment_of[arc.producer] == fragment:
            continue
        mean, variance, _, _ = inside.of(a, None)
        rate = arc.rate
        square = rate * (mean**2 + variance)
        flows[fragment] += [rate, rate * mean, square, rate**2, rate, weights[a]]
    return flows
