"""Serving over TLS: to a client that checks the certificate, and refusals that say what is wrong with it."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.cli.main import main
from mooring.errors import InputError
from mooring.service.view.planning_desk import PlanningDesk
from mooring.service.web.desk_service import desk_app
from mooring.service.web.tls import TlsFiles, load_tls
from tests.service.served import TOKEN, serving
from tests.service.simulated_project import PROBLEM

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl was found")
Made = Callable[..., Path]


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`good.crt` and `good.key`; `old.crt` of the same key, which has expired; and other keys."""
    made = tmp_path_factory.mktemp("tls")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")
    named = ("-subj", "/CN=desk", "-addext", "subjectAltName=DNS:Desk.example,DNS:localhost,IP:127.0.0.1")
    key, asked = str(made / "good.key"), str(made / "asked.csr")
    openssl("req", "-x509", *curve, "-keyout", key, "-out", str(made / "good.crt"), "-days", "2", *named)
    openssl("req", "-new", "-key", key, "-subj", "/CN=desk", "-out", asked)
    openssl(
        *("x509", "-req", "-in", asked, "-signkey", key, "-days", "-1", "-out", str(made / "old.crt")),
    )
    openssl("genpkey", "-algorithm", "ed25519", "-out", str(made / "other.key"))
    openssl("pkey", "-in", key, "-aes128", "-passout", "pass:x", "-out", str(made / "locked.key"))
    (made / "words.txt").write_text("no certificate\n")
    return made


def test_a_client_that_checks_the_certificate_is_answered_and_others_are_not(folder: Path) -> None:
    tls = load_tls(TlsFiles(folder / "good.crt", folder / "good.key"))
    trusting = ssl.create_default_context(cafile=str(folder / "good.crt"))
    with serving(lambda rules: desk_app(PlanningDesk("small", PROBLEM), rules), tls=tls) as served:
        for name in ("localhost", "desk.example"):
            with socket.create_connection((served.host, served.port), timeout=60) as plain:
                line = http.client.HTTPSConnection(name, served.port, timeout=60)
                line.sock = trusting.wrap_socket(plain, server_hostname=name)
                line.request("POST", "/api/v1/desk/plan", "{}", _headers(name, served.port))
                answer = line.getresponse()
                assert answer.status == 200
                assert json.loads(answer.read())["policy"] == "rod"
                line.close()
        strict = ssl.create_default_context()
        with (
            socket.create_connection((served.host, served.port), timeout=60) as plain,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            strict.wrap_socket(plain, server_hostname="localhost")
        with socket.create_connection((served.host, served.port), timeout=60) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert not plain.recv(100).startswith(b"HTTP")


def _headers(name: str, port: int) -> dict[str, str]:
    return {
        "content-type": "application/json",
        "authorization": f"Bearer {TOKEN}",
        "origin": f"https://{name}:{port}",
    }


@pytest.mark.parametrize(
    ("certificate", "key", "which", "said"),
    [
        ("none.crt", "good.key", "none.crt", "cannot be read: No such file"),
        ("good.crt", "none.key", "none.key", "cannot be read: No such file"),
        ("good.crt", ".", ".", "cannot be read: Is a directory"),
        ("words.txt", "good.key", "words.txt", "found no certificate, expected one in PEM"),
        ("good.key", "good.crt", "good.key", "found no certificate"),
        ("good.crt", "words.txt", "words.txt", "found no private key, expected one in PEM"),
        ("good.crt", "other.key", "other.key", "found the key of another certificate"),
        ("good.crt", "locked.key", "locked.key", "found a key with a passphrase"),
        ("old.crt", "good.key", "old.crt", "clients refuse: certificate has expired"),
    ],
)
def test_files_that_cannot_be_served_with_are_named_with_what_is_wrong(
    folder: Path, certificate: str, key: str, which: str, said: str
) -> None:
    with pytest.raises(InputError, match=re.escape(said)) as refused:
        load_tls(TlsFiles(folder / certificate, folder / key))
    assert refused.value.file == str(folder / which)
    assert refused.value.field == "--tls"
    assert refused.value.remedy


def test_a_run_says_so_before_it_starts_anything(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = "examples/network_monitoring"
    files = [str(folder / "old.crt"), str(folder / "good.key")]
    for words, said in (
        (["--serve", "--tls", *files], "certificate has expired"),
        (["--tls", *files], "found --tls without --serve"),
        (["--serve", "nowhere"], "expected PORT or HOST:PORT"),
    ):
        assert main(["run", project, *words]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
