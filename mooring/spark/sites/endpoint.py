"""The Spark endpoint of a site, and how to open and close sessions there."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
import warnings
from dataclasses import dataclass
from typing import cast

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession as ConnectSession

from mooring.errors import InputError, SiteLostError
from mooring.model.problem.site import Connection, check_connection
from mooring.spark.sites.site_channel import SiteChannel
from mooring.spark.sites.site_token import read_token

_RETRIES = DefaultPolicy(max_retries=4, initial_backoff=50, max_backoff=2000)
"""About three seconds: enough for a hiccup, short enough to notice a dead site."""
# Said in words by whoever asked; the client would warn of it from whichever thread gave up.
warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]", category=UserWarning)
CLOSE_PATIENCE_S = 10.0
"""How long a server may take to release a session before it is let go."""
_TURNED_AWAY = ("UNAUTHENTICATED", "PERMISSION_DENIED", "authentication token")


@dataclass(frozen=True, init=False)
class Endpoint:
    """A Spark Connect server that sessions can be opened at: a connection, or short for one, its URL. Neither
    its text nor anything it raises shows a token.
    """

    connection: Connection

    def __init__(self, at: Connection | str) -> None:
        given = Connection(url=at) if isinstance(at, str) else at
        object.__setattr__(self, "connection", check_connection(given, "connect"))

    def __repr__(self) -> str:
        return f"Endpoint({self.shown!r})"

    @property
    def url(self) -> str:
        """With its secrets: for clients, never for people."""
        return self.connection.url

    @property
    def shown(self) -> str:
        """Where it is, fit for logs and reports."""
        return str(self.connection.address)

    def check_token(self) -> None:
        """`InputError` if it cannot be had."""
        read_token(self.connection)

    def without_secrets(self, text: str) -> str:
        """What a server says may repeat what it was sent."""
        sent = [*self.connection.address.headers.values()]
        with contextlib.suppress(InputError):
            sent.append(read_token(self.connection) or "")
        for secret in sorted((each for each in sent if each), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def open_session(endpoint: Endpoint, session_id: str | None = None) -> SparkSession:
    """A new session of its own (never the process's default one), checked to answer."""
    session: SparkSession | None = None
    try:
        channel = SiteChannel(endpoint.connection, session_id or str(uuid.uuid4()))
        with warnings.catch_warnings():
            # gRPC and pandas versions are the user's; their deprecations are not ours to raise.
            warnings.simplefilter("ignore")
            # As Spark's own builder does where it is given a URL: `functions` and more look for it.
            os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
            session = cast(SparkSession, ConnectSession.builder.channelBuilder(channel).create())
            # The client's own policy retries for ten minutes, even while the process ends.
            session.client.set_retry_policies([_RETRIES])
            # Any question would do but `session.version`: until Python 3.12 a property that is kept holds one
            # lock for all sessions while it asks, so that a frozen site would keep every other one waiting.
            session.conf.get("spark.master")
    except InputError as unfit:  # its token, or its CA's file
        raise SiteLostError(
            f"the site at {endpoint.shown} cannot be reached: {unfit.message}", remedy=unfit.remedy
        ) from unfit
    except PySparkException as failure:
        if session is not None:
            close_session(session)  # or it would try to release itself, with a warning, as the process ends
        raise site_lost(f"the site at {endpoint.shown}", failure, endpoint) from failure
    return session


def spark_version(session: SparkSession) -> str:
    """Of its server. `session.version` would hold a lock of all sessions meanwhile (see above)."""
    return str(session.client._analyze(method="spark_version").spark_version)


_OWN_CLASSES = (
    "spark.sql.artifact.isolation.enabled",
    "spark.sql.artifact.isolation.alwaysApplyClassloader",
)


def keep_generated_code(session: SparkSession) -> None:
    """Let queries of this session use the code that the site has compiled for others. To be called before
    anything else is asked of the session.

    Spark keeps generated code by class loader. By default every start of a query gets a loader of its own,
    for jars that its session may have added, and compiles its plan again. A server that refuses the settings
    goes on as it does by default.
    """
    for name in _OWN_CLASSES:
        with contextlib.suppress(PySparkException):
            session.conf.set(name, "false")


def is_session_gone(failure: BaseException | None) -> bool:
    """Whether a call failed since its session has ended at the server, and all that ran in it."""
    return "INVALID_HANDLE" in str(failure)


def site_lost(site: str, failure: PySparkException, endpoint: Endpoint) -> SiteLostError:
    """Why a call to a site came to nothing: it turned us away, or it did not answer."""
    said = endpoint.without_secrets(first_line(failure))
    if any(word in f"{failure} {said}" for word in _TURNED_AWAY):
        return SiteLostError(
            f"{site} refuses the token: {said}",
            remedy="update the token that `connect` names and run again; its fragments continue elsewhere",
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
        if callable(details) and (said := str(details() or "").strip()):
            return said.splitlines()[0]
        at = at.__cause__ or at.__context__
    text = str(failure).strip()
    return text.splitlines()[0] if text else type(failure).__name__
