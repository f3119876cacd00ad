"""Who vouches for a site is looked at before it is sent a token; plain text is sent only where asked for."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import EngineError, InputError
from mooring.model.problem.site import Connection, Site
from mooring.spark.sites.endpoint import Endpoint, close_session, open_session
from mooring.spark.sites.sites import running_sites

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite

pytestmark = pytest.mark.usefixtures("waits_ms")


@dataclass(frozen=True)
class Authority:
    """A CA and a server's certificate for the loopback, signed by it."""

    ca: Path
    certificate: Path
    key: Path


def make_authority(folder: Path) -> Authority:
    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    folder.mkdir()
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")
    openssl("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=a CA of our own")
    openssl("req", *new_key, "-keyout", "site.key", "-out", "site.csr", "-subj", "/CN=a site")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl(
        *("x509", "-req", "-in", "site.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
        *("-extfile", "names", "-out", "site.pem"),
    )
    return Authority(folder / "ca.pem", folder / "site.pem", folder / "site.key")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine to make certificates with")
    return make_authority(tmp_path_factory.mktemp("tls") / "own")


class Terminator:
    """Takes TLS off what comes in and passes it on, as a proxy in front of a cluster does."""

    def __init__(self, to_port: int, context: ssl.SSLContext) -> None:
        self._to_port, self._context = to_port, context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open = [self._listener]
        self.port: int = self._listener.getsockname()[1]
        self.shaken_hands = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                raw, _ = self._listener.accept()
                self._open.append(raw)
                threading.Thread(target=self._serve, args=(raw,), daemon=True).start()

    def _serve(self, raw: socket.socket) -> None:
        with contextlib.suppress(OSError):
            client = self._context.wrap_socket(raw, server_side=True)
            self._open.append(client)
            self.shaken_hands += 1
            server = socket.create_connection(("127.0.0.1", self._to_port))
            self._open.append(server)
            threading.Thread(target=_pass_on, args=(server, client), daemon=True).start()
            _pass_on(client, server)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)


@pytest.fixture
def terminator(site: EmbeddedSite, authority: Authority) -> Iterator[Terminator]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate, authority.key)
    context.set_alpn_protocols(["h2"])
    assert site._port is not None
    made = Terminator(site._port, context)
    yield made
    made.close()


def test_a_ca_of_ones_own_vouches_for_a_site(
    site: EmbeddedSite, terminator: Terminator, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSLO_TOKEN", site._token)
    url = f"sc://127.0.0.1:{terminator.port}"
    session = open_session(Endpoint(Connection(url=url, token_env="OSLO_TOKEN", ca_file=str(authority.ca))))
    assert session.range(7).count() == 7
    assert close_session(session)
    assert terminator.shaken_hands > 0


def test_a_site_that_nobody_known_vouches_for_is_sent_nothing(
    site: EmbeddedSite, terminator: Terminator, tmp_path: Path
) -> None:
    """Neither by those whom everybody trusts nor by the CA that was named."""
    other = make_authority(tmp_path / "other")
    for ca_file in (None, str(other.ca)):
        url = f"sc://127.0.0.1:{terminator.port}/;token={site._token}"
        with pytest.raises(EngineError, match="does not answer") as lost:
            open_session(Endpoint(Connection(url=url, ca_file=ca_file)))
        assert site._token not in str(lost.value)
    assert terminator.shaken_hands == 0


def test_a_token_is_sent_in_plain_text_only_where_that_is_asked_for(site: EmbeddedSite) -> None:
    """As if 127.0.0.1 were another machine: Spark's client trusts `localhost` alone without TLS."""
    url = f"sc://127.0.0.1:{site._port}/;token={site._token}"
    with pytest.raises(EngineError, match="does not answer"):
        open_session(Endpoint(Connection(url=url)))
    session = open_session(Endpoint(Connection(url=url, plain_text=True)))
    assert session.range(7).count() == 7
    assert close_session(session)


def test_what_a_site_says_is_shown_without_what_it_was_sent(site: EmbeddedSite) -> None:
    wrong = Connection(url=f"sc://127.0.0.1:{site._port}/;token=refuses", plain_text=True)
    with pytest.raises(EngineError, match="refuses the token") as lost:
        open_session(Endpoint(wrong))
    assert "***" in Endpoint(wrong).without_secrets("server: refuses is no token")
    assert "token=" not in str(lost.value)


def test_a_token_that_cannot_be_had_is_named_with_its_site_before_anything_starts(tmp_path: Path) -> None:
    away = Site(name="oslo", capacity=1.0, connect=Connection(url="sc://oslo", token_env="NOT_SET_ANYWHERE"))
    here = Site(name="berlin", capacity=1.0)
    with (
        pytest.raises(InputError, match="NOT_SET_ANYWHERE") as refused,
        running_sites([here, away], tmp_path),
    ):
        pass
    assert refused.value.field == "sites.oslo.connect.token_env"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("field", ["token_file", "ca_file"])
def test_a_file_that_vanished_while_a_run_goes_on_is_the_sites_trouble(tmp_path: Path, field: str) -> None:
    gone = Connection(url="sc://localhost:1", **{field: str(tmp_path / "gone")})  # type: ignore[arg-type]
    with pytest.raises(EngineError, match=r"sc://localhost:1 cannot be reached.*cannot be read"):
        open_session(Endpoint(gone))


def test_an_endpoint_shows_where_it_is_and_nothing_else() -> None:
    endpoint = Endpoint("sc://oslo:7/;token=hunter2;x-api-key=hunter2;user_id=hunter2")
    assert repr(endpoint) == "Endpoint('sc://oslo:7')"
    assert "hunter2" not in f"{endpoint} {endpoint!r} {endpoint.shown}"
