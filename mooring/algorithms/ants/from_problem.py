"""What the machines of a problem's sites begin with, and its chains as they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.algorithms.ants.chains import Chain
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.ants.machines.colony_params import ENDLESS, SiteFacts
from mooring.algorithms.ants.machines.messages import ChainSpec
from mooring.arrays import Ints


def site_facts(search: LatencySearch, neighbours: Sequence[Sequence[int]]) -> list[SiteFacts]:
    """Per site: its own row and column of the latencies, those rows that its neighbours tell, and nothing of
    the others' load."""
    template = search.many.template
    return [
        SiteFacts(
            tuple(own),
            tuple(template.latency_s[s].tolist()),
            tuple(template.latency_s[:, s].tolist()),
            float(template.capacity_cores[s]),
            min(float(search.fragments.memory_limit_mb[s]), ENDLESS),
            tuple(tuple(template.latency_s[n].tolist()) for n in own),
            search.trigger_s,
            search.delay_limit_s,
        )
        for s, own in enumerate(neighbours)
    ]


def chain_spec(number: int, chain: Chain, site_of_fragment: Ints, signature: Ints | None = None) -> ChainSpec:
    """Between the sites that its ends have by now; one without an end stays where the other is.

    signature: per fragment, what it computes; None: nothing is shared.
    """
    source, destination = chain.start.site_in(site_of_fragment), chain.end.site_in(site_of_fragment)
    either = max(source, destination, 0)
    return ChainSpec(
        number,
        tuple(tuple(row) for row in chain.tasks.tolist()),
        tuple(tuple(row) for row in chain.sides.tolist()),
        either if source < 0 else source,
        chain.start.fragment >= 0,
        chain.start_variability,
        either if destination < 0 else destination,
        chain.end.fragment >= 0,
        chain.end_weight if destination >= 0 else 0.0,
        () if signature is None else tuple(signature[list(chain.fragments)].tolist()),
    )
