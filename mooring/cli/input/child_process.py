"""The page of a run as a process beside it, so that the page's readers never delay the run's loop."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from mooring.cli.input.parsing import Parser
from mooring.errors import InputError, installing

PACKAGES = ("starlette", "uvicorn", "prometheus_client")
_END_S = 5.0


def require_service(field: str | None = None) -> None:
    """Before a service is started: what the `serve` extra brings has to be there."""
    missing = next((package for package in PACKAGES if find_spec(package) is None), None)
    if missing is not None:
        raise InputError(
            f"the page needs {missing}, which is not installed",
            field=field,
            remedy=installing("serve"),
        )


def add_tls(parser: Parser) -> None:
    parser.add_argument(
        "--tls",
        nargs=2,
        type=Path,
        metavar=("CERTIFICATE", "KEY"),
        help="serve over HTTPS with this certificate and key (PEM files)",
    )


def check_page(at: str, tls: Sequence[Path] | None) -> None:
    """What is wrong with how a page is asked for, before anything is started that it is to show."""
    require_service("--serve")
    from mooring.service.web.listening_place import ListeningPlace
    from mooring.service.web.tls import TlsFiles, load_tls

    ListeningPlace.parse(at)
    if tls is not None:
        load_tls(TlsFiles(*tls))


@contextlib.contextmanager
def page_beside(
    spec: Path, at: str, tls: Sequence[Path] | None, say: Callable[[str], None]
) -> Iterator[None]:
    """Serve the run of a project for as long as the block lasts; `say` is called with its address."""
    require_service("--serve")
    words = ["serve", str(spec), "--at", at, "--with-parent"]
    if tls is not None:
        words += ["--tls", *map(str, tls)]
    child = subprocess.Popen(
        [sys.executable, "-m", "mooring", *words, "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        threading.Thread(target=_tell, args=(child, spec, say), daemon=True).start()
        yield
    finally:
        child.terminate()
        try:
            child.wait(_END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _tell(child: subprocess.Popen[str], spec: Path, say: Callable[[str], None]) -> None:
    """The service says where it listens, or why it does not, in one document."""
    assert child.stdout is not None
    text = ""
    for line in child.stdout:
        text += line
        if line.startswith("}"):
            break
    with contextlib.suppress(ValueError, KeyError):
        document = json.loads(text)
        if "error" in document:
            say(f"the page could not start: {document['error']['message']}")
        else:
            say(f"page: {document['page']}")
