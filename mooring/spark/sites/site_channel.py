"""The gRPC channel to a site, made by us rather than by Spark's client from a URL.

So that a CA of one's own can vouch for a site, that a token can be sent in plain text where that was asked
for, and that no URL with a token in it reaches code that might show it in an error.
"""

from __future__ import annotations

from pathlib import Path

import grpc
from pyspark.sql.connect.client import ChannelBuilder

from mooring.errors import InputError
from mooring.model.problem.site import Connection
from mooring.spark.sites.site_token import read_token


class SiteChannel(ChannelBuilder):
    """One session's. `session_id` is the session that is opened, or found again."""

    def __init__(self, connection: Connection, session_id: str) -> None:
        address = connection.address
        super().__init__(params={**address.options, self.PARAM_SESSION_ID: session_id})
        self._address = address
        self._token = read_token(connection)
        # A token from the environment asks for TLS as one in the address does.
        self._private = connection.is_private or (
            self._token is not None
            and not connection.plain_text
            and address.use_ssl is None
            and address.host != "localhost"
        )
        self._plain = connection.plain_text
        self._vouching = _certificates(connection)

    @property
    def host(self) -> str:
        return self._address.host

    @property
    def token(self) -> str | None:
        return self._token

    def toChannel(self) -> grpc.Channel:
        target = f"{self._address.host}:{self._address.port}"
        if self._private:
            credentials = grpc.ssl_channel_credentials(self._vouching)
        elif self._token is not None and not self._plain:
            credentials = grpc.local_channel_credentials()  # which refuses to leave the machine
        else:
            return self._insecure_channel(target)
        if self._token is not None:
            calls = grpc.access_token_call_credentials(self._token)
            credentials = grpc.composite_channel_credentials(credentials, calls)
        return self._secure_channel(target, credentials)

    def metadata(self) -> list[tuple[str, str]]:
        """What goes along with every call. gRPC's own way to send a token insists on TLS."""
        sent = list(self._address.headers.items())
        if self._plain and self._token is not None:
            sent.append(("authorization", f"Bearer {self._token}"))
        return sent


def _certificates(connection: Connection) -> bytes | None:
    if connection.ca_file is None:
        return None
    try:
        return Path(connection.ca_file).read_bytes()
    except OSError as failure:
        raise InputError(
            f"the CA's file {connection.ca_file} cannot be read: {failure.strerror}", field="connect.ca_file"
        ) from None
