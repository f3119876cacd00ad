"""A site that is down is named, with what the network says of it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from mooring.errors import EngineError
from mooring.problem.site import Site
from mooring.spark.sites.file_name import file_name
from mooring.spark.sites.sites import running_sites


def test_a_site_that_is_down_is_named_with_the_networks_own_words(tmp_path: Path) -> None:
    with socket.socket() as closed:  # bound but not listening: nothing answers here
        closed.bind(("127.0.0.1", 0))
        down = Site(
            name="oslo", capacity=1.0, connect=f"sc://127.0.0.1:{closed.getsockname()[1]}/;token=s3cret"
        )
        with pytest.raises(EngineError) as found, running_sites([down], tmp_path):
            pass
    message = str(found.value)
    assert "site 'oslo'" in message
    assert "Connection refused" in message
    assert "s3cret" not in message
    assert "InactiveRpcError" not in message


def test_a_site_keeps_its_files_in_its_own_folder_whatever_its_name(tmp_path: Path) -> None:
    for name in ("../../x", "/etc", "..", "a/b", "."):
        folder = (tmp_path / "sites" / file_name(name)).resolve()
        assert folder.parent == tmp_path / "sites"
    assert file_name("a/b") != file_name("a_b") != file_name("a.b")
