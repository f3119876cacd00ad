"""GML files of the Topology Zoo become topologies with latencies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mooring.errors import InputError
from mooring.model.network.routing import route
from mooring.model.network.topology_zoo import read_gml

GML = """graph [
  label "Three" Version "1.0"
  node [ id 0 label "Amsterdam" Latitude 52.374 Longitude 4.890 ]
  node [ id 5 label "Brussels" Latitude 50.850 Longitude 4.349 ]
  node [ id 7 label "Somewhere" graphics [ x 1 y 2 ] ]
  node [ id 9 label "Island" Latitude 0 Longitude 0 ]
  edge [ source 0 target 5 LinkSpeedRaw 10000000000.0 ]
  edge [ source 0 target 5 ]
  edge [ source 7 target 5 ]
]
"""


def test_latencies_follow_from_places(tmp_path: Path) -> None:
    (tmp_path / "three.gml").write_text(GML)
    topology = read_gml(tmp_path / "three.gml")
    assert topology.names == ("Amsterdam-0", "Brussels-5", "Somewhere-7")
    latency = route(topology).latency_ms
    assert latency[0, 1] == pytest.approx(173.6 / 200.0, rel=0.01)
    assert latency[0, 2] == pytest.approx(latency[0, 1] + latency[1, 2])
    assert np.all(topology.latency_ms >= 0.05)


def test_what_is_no_gml_is_refused(tmp_path: Path) -> None:
    for number, text in enumerate(("", "hello", "graph [ node [ label 3 ] ]", "graph ["[:5])):
        (tmp_path / f"{number}.gml").write_text(text)
        with pytest.raises(InputError, match="not a GML graph"):
            read_gml(tmp_path / f"{number}.gml")
    (tmp_path / "edge.gml").write_text("graph [ node [ id 1 ] edge [ source 1 target 2 ] ]")
    with pytest.raises(InputError, match="id of a node"):
        read_gml(tmp_path / "edge.gml")
