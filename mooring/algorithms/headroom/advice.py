"""What else would help where moves leave a site overloaded: cores, fewer rows, or one query less."""

from __future__ import annotations

import numpy as np

from mooring.arrays import Bools, Ints
from mooring.contracts.picture import Picture
from mooring.quantity import decimal


def what_else(picture: Picture, sites: Ints) -> str:
    """A clause for the reason of a proposal; empty where the placement overloads no site."""
    model, problem = picture.model, picture.problem
    loads = model.site_loads(sites, picture.rates)
    over = loads - model.capacity_cores
    if not np.any(over > 0.0):
        return ""
    site = int(np.argmax(over / model.capacity_cores))
    name, lacks = problem.sites[site].name, float(over[site])
    remedies = [f"{decimal(lacks, 2)} more cores there"]
    by_stream = model.site_coefficients(sites)[site, : model.stream_count] * picture.rates
    stream = int(np.argmax(by_stream))
    if by_stream[stream] > lacks:
        remedies.append(f"{lacks / by_stream[stream]:.0%} fewer rows of {problem.streams[stream].name}")
    if (query := _query_to_drop(picture, sites, site, lacks)) is not None:
        remedies.append(f"dropping query {query}")
    helps = remedies[0] if len(remedies) == 1 else f"{', '.join(remedies[:-1])} or {remedies[-1]}"
    more = int(np.sum(over > 0.0)) - 1
    others = "" if not more else f" and {more} more {'site' if more == 1 else 'sites'}"
    return (
        f"; that leaves site {name}{others} overloaded, with {loads[site]:.2f} cores of load on "
        f"{model.capacity_cores[site]:.2f}. What would help: {helps}"
    )


def _query_to_drop(picture: Picture, sites: Ints, site: int, lacks: float) -> str | None:
    """The query without which the site has room, and that frees the least; None if no single one does."""
    needed = [_needed(picture, query.reads) for query in picture.problem.queries]
    readers = np.sum(needed, axis=0) if needed else np.zeros(0)
    own = picture.loads_cores + picture.model.fixed_cores
    freed = [float(own[of & (readers == 1) & (sites == site)].sum()) for of in needed]
    enough = [(cores, q) for q, cores in enumerate(freed) if cores >= lacks]
    return picture.problem.queries[min(enough)[1]].name if enough else None


def _needed(picture: Picture, reads: str) -> Bools:
    """The fragments that a query needs."""
    problem, graph = picture.problem, picture.problem.graph
    fragment_of = {j: f for f, members in enumerate(problem.fragments) for j in members}
    needed = np.zeros(len(problem.fragments), dtype=bool)
    left, seen = list(problem.nodes_by_name[reads]), set[int]()
    while left:
        node = left.pop()
        if node < graph.stream_count or node in seen:
            continue
        seen.add(node)
        needed[fragment_of[node - graph.stream_count]] = True
        left += [source for port in graph.ports[node - graph.stream_count] for source in port]
    return needed
