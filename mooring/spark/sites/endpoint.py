"""Where a site's Spark answers, and how to open and close sessions there."""

from __future__ import annotations

import contextlib
import threading
import uuid
import warnings
from dataclasses import dataclass
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy

from mooring.errors import InputError, SiteLostError

_RETRIES = DefaultPolicy(max_retries=4, initial_backoff=50, max_backoff=2000)
"""About three seconds: enough for a hiccup, short enough to notice a dead site."""
# Said in words by whoever asked; the client would warn of it from whichever thread gave up.
warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]", category=UserWarning)
CLOSE_PATIENCE_S = 10.0
"""How long a server may take to release a session before it is let go."""
_TURNED_AWAY = ("UNAUTHENTICATED", "PERMISSION_DENIED", "authentication token")
_SECRETS = ("token", "x-api-key", "authorization")


@dataclass(frozen=True)
class Endpoint:
    """A Spark Connect URL: `sc://host:port/;token=...;use_ssl=true`. A token implies TLS unless the host is
    localhost.
    """

    url: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme != "sc" or not parts.hostname:
            raise InputError(
                f"expected a Spark Connect URL, found {self.url!r}",
                field="connect",
                remedy="write it as sc://host:15002, with /;token=...;use_ssl=true after it where needed",
            )
        if parts.path not in ("", "/") and not parts.path.startswith("/;"):
            raise InputError(
                f"the URL {self.redacted()!r} has a path",
                field="connect",
                remedy="parameters follow '/;', as in sc://host:15002/;token=...",
            )
        if "session_id=" in self.url:
            raise InputError(
                f"the URL {self.redacted()!r} sets session_id, which Mooring chooses per fragment",
                field="connect",
                remedy="leave session_id out",
            )

    def with_session(self, session_id: str) -> str:
        """The URL that opens, or finds again, the session of that id."""
        base = self.url if "/;" in self.url else self.url.rstrip("/") + "/"
        return f"{base.rstrip(';')};session_id={session_id}"

    def redacted(self) -> str:
        """The URL fit for logs and reports."""
        head, *parameters = self.url.split(";")
        shown = [
            f"{name}=***" if (name := item.split("=", 1)[0]).lower() in _SECRETS else item
            for item in parameters
        ]
        return ";".join([head, *shown])


def open_session(endpoint: Endpoint, session_id: str | None = None) -> SparkSession:
    """A new session of its own (never the process's default one), checked to answer."""
    url = endpoint.with_session(session_id or str(uuid.uuid4()))
    session: SparkSession | None = None
    try:
        with warnings.catch_warnings():
            # gRPC and pandas versions are the user's; their deprecations are not ours to raise.
            warnings.simplefilter("ignore")
            session = SparkSession.builder.remote(url).create()
            # The client's own policy retries for ten minutes, even while the process ends.
            session.client.set_retry_policies([_RETRIES])
            # Any question would do but `session.version`: until Python 3.12 a property that is kept holds one
            # lock for all sessions while it asks, so that a frozen site would keep every other one waiting.
            session.conf.get("spark.master")
    except PySparkException as failure:
        if session is not None:
            close_session(session)  # or it would try to release itself, with a warning, as the process ends
        raise site_lost(f"the site at {endpoint.redacted()}", failure) from failure
    return session


def site_lost(site: str, failure: PySparkException) -> SiteLostError:
    """Why a call to a site came to nothing: it turned us away, or it did not answer."""
    said = first_line(failure)
    if any(word in f"{failure} {said}" for word in _TURNED_AWAY):
        return SiteLostError(
            f"{site} refuses the token: {said}",
            remedy="put its present token into `connect` and run again; what ran there goes on elsewhere",
        )
    return SiteLostError(
        f"{site} does not answer: {said}",
        remedy="check that its Spark Connect server runs and is reachable, and the token",
    )


def close_session(session: SparkSession, patience_s: float = CLOSE_PATIENCE_S) -> bool:
    """Release the session at its server; one that no longer answers is let go, and False returned.

    `session.stop()` alone would wait for a frozen server for ever, and meanwhile hold a lock without which no
    other session of this process can be opened or closed.
    """
    released = threading.Event()

    def release() -> None:
        with contextlib.suppress(Exception):  # the server may already be gone, in any of gRPC's ways
            session.client.release_session()
            released.set()

    thread = threading.Thread(target=release, name="release a session", daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thread.start()
        thread.join(patience_s)
        with contextlib.suppress(Exception):
            session.client.close()  # ends a call that still waits
            session.stop()  # nothing is left to ask: it only forgets the session
    return released.is_set()


def first_line(failure: BaseException) -> str:
    """What went wrong in one line; of a failed call, what gRPC says of it rather than the call's name."""
    at: BaseException | None = failure
    while at is not None:
        details = getattr(at, "details", None)
        if callable(details) and (said := details()):
            return str(said).splitlines()[0]
        at = at.__cause__ or at.__context__
    text = str(failure).strip()
    return text.splitlines()[0] if text else type(failure).__name__
