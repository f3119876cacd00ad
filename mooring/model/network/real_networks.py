"""Networks that exist: those that come with Mooring by name, others from files."""

from __future__ import annotations

from pathlib import Path

from mooring.errors import InputError
from mooring.model.network.round_trips import RoundTrips, read_matrix, read_pings
from mooring.model.network.routing import route
from mooring.model.network.shipped import aws_regions, planetlab
from mooring.model.network.topology_zoo import read_gml
from mooring.model.problem.places import Places
from mooring.model.problem.reading.fields import nearest

SHIPPED = {"aws": aws_regions, "planetlab": planetlab}


def real_network(name_or_path: str) -> Places:
    """`aws`, `planetlab`, a GML file, a folder of ping summaries, or a matrix of round-trip times in ms.

    >>> len(real_network("aws").names)
    19
    """
    if name_or_path in SHIPPED:
        return _places(SHIPPED[name_or_path]())
    path = Path(name_or_path)
    if not path.exists():
        closest = nearest(name_or_path, SHIPPED)
        raise InputError(
            f"found {name_or_path!r}, expected {' or '.join(SHIPPED)}, or a file",
            field="network",
            remedy=None if closest is None else f"did you mean {closest!r}?",
        )
    if path.is_dir():
        return _places(read_pings(path))
    if path.suffix.lower() == ".gml":
        topology = read_gml(path)
        return Places(topology.names, route(topology).latency_ms)
    return _places(read_matrix(path))


def _places(measured: RoundTrips) -> Places:
    return Places(measured.names, measured.one_way_ms())
