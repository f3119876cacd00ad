"""A site that is down is named, with what the network says of it."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from mooring.errors import EngineError
from mooring.model.problem.site import Connection, Site
from mooring.spark.sites.endpoint import Endpoint
from mooring.spark.sites.file_name import file_name
from mooring.spark.sites.site_revival import RevivalOptions, SiteRevival
from mooring.spark.sites.sites import SiteHandle, SiteHandles, running_sites

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite


@pytest.mark.usefixtures("waits_ms")
def test_a_site_that_is_down_is_named_with_the_networks_own_words(tmp_path: Path) -> None:
    with socket.socket() as closed:  # bound but not listening: nothing answers here
        closed.bind(("127.0.0.1", 0))
        down = Site(
            name="oslo",
            capacity=1.0,
            connect=Connection(url=f"sc://127.0.0.1:{closed.getsockname()[1]}/;token=s3cret"),
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


def test_a_site_that_is_back_but_not_fit_for_use_is_tried_again_until_it_is(
    site: EmbeddedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers before its storage is mounted; and whatever else goes wrong, somebody goes on trying."""
    failures: list[Exception] = [RuntimeError("a bug"), EngineError("does not see the storage root")]

    def check(handle: SiteHandle) -> None:
        if failures:
            raise failures.pop(0)

    sites = SiteHandles([SiteHandle("there", 1.0, site.endpoint, None)])
    replace = sites.replace

    def replaced(handle: SiteHandle) -> None:
        if len(raised) == 0:
            raised.append("once")
            raise KeyError(handle.name)
        replace(handle)

    raised: list[str] = []
    monkeypatch.setattr(sites, "replace", replaced)
    revival = SiteRevival(sites, RevivalOptions(first_pause_s=0.01), check)
    revival.look_after("there")
    back: list[str] = []
    deadline = time.monotonic() + 60
    while not back:
        assert time.monotonic() < deadline
        back = revival.returned()
        time.sleep(0.01)
    assert back == ["there"]
    assert failures == []
    assert revival.refusals() == {}


@pytest.mark.skipif(sys.platform != "linux", reason="listening sockets are read from /proc")
def test_the_server_of_an_endpoint_on_this_machine_is_found_by_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert SiteHandle("here", 1.0, Endpoint(f"sc://localhost:{port}"), None).server_pid() == os.getpid()
    assert SiteHandle("away", 1.0, Endpoint(f"sc://elsewhere:{port}"), None).server_pid() is None
