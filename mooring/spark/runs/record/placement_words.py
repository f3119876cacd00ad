"""What a placement means for a pipeline, in its own words: how much more it can take, what crosses sites.

`mooring plan` explains a placement to those who compare policies; whoever runs a pipeline wants to know
whether it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mooring.model.evaluation.headroom_sentence import headroom_sentences
from mooring.quantity import quantity
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.statistics_used import assumed_sentence

if TYPE_CHECKING:
    from mooring.model.evaluation.metrics import Metrics

_OF_THE_THEORY = ("feasible set", "rate combinations", "rate directions")


def placement_words(layout: Layout, metrics: Metrics, why: Sequence[str]) -> list[str]:
    """`why`: the policy's own explanation, of which what speaks of the theory is left out. Where costs or
    rates are assumed, what follows from them is not said as if it were known.
    """
    room, assumed = headroom_sentences(metrics), assumed_sentence(layout)
    words = [assumed] if assumed is not None else list(room)
    words += [line for line in why if line not in room and not any(term in line for term in _OF_THE_THEORY)]
    ratio = metrics.feasible_ratio
    if assumed is None and isinstance(ratio, float):
        words.append(
            f"Of all mixes of rates that the best imaginable placement on these sites could carry, this one "
            f"carries {ratio:.0%}."
        )
    crossing = metrics.bandwidth
    if isinstance(crossing, float) and crossing > 0.0:
        words.append(f"{quantity(crossing, 'B/s')} cross between sites.")
    return words
