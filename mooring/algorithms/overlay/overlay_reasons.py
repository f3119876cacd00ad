"""Why a query was rejected, in words: which limit, which resource, and by how much."""

from __future__ import annotations

from mooring.algorithms.overlay.protocol.messages import Obstacle, Rejected
from mooring.algorithms.overlay.requests import OverlayRequests, Wanted

UNITS = {"cores": "cores", "memory_mb": "MB"}


def in_words(requests: OverlayRequests, wanted: Wanted, rejected: Rejected) -> str:
    obstacle = rejected.obstacle
    match obstacle.resource:
        case "limit":
            return _late(requests, wanted, obstacle)
        case "answers":
            return f"{obstacle.best:.0f} sites did not answer"
        case "moves":
            return "every plan for it would take more moves than are left"
    unit = UNITS[obstacle.resource]
    operator = requests.problem.fragment_names[obstacle.operator]
    best = max(obstacle.best, 0.0)
    if best >= obstacle.needed:
        return (
            f"operator {operator!r} needs {obstacle.needed:.3g} {unit}, and no site with so much left has "
            "room for the operators that would have to be there with it"
        )
    return (
        f"operator {operator!r} needs {obstacle.needed:.3g} {unit}; no site near its streams and its query "
        f"has more than {best:.3g} left below the threshold, {obstacle.needed - best:.3g} short"
    )


def _late(requests: OverlayRequests, wanted: Wanted, obstacle: Obstacle) -> str:
    by_ms = obstacle.best - obstacle.needed
    best = f"the best plan takes {obstacle.best:.4g} ms, {by_ms:.3g} too long"
    if obstacle.query == wanted.query:
        return f"its limit is {obstacle.needed:.4g} ms, and {best}"
    other = requests.query_name(obstacle.query)
    shares = f"query {other!r}, which shares operators with it"
    return f"{shares}, has a limit of {obstacle.needed:.4g} ms, and {best}"
