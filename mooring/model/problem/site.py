"""A site: a place that runs operators (a Spark endpoint; "node" in the papers), and how it is reached."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.errors import InputError
from mooring.model.problem.reading.address import Address, read_address


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """How a site's Spark is reached. Secrets are never printed, logged or fingerprinted."""

    url: str
    """`sc://host:port/;name=value;...`; may carry a token."""
    token_env: str | None = None
    """The environment variable that holds the token."""
    token_file: str | None = None
    """The file that holds the token."""
    ca_file: str | None = None
    """Certificates (PEM) of whoever vouches for the site, instead of those that everybody trusts."""
    plain_text: bool = False
    """Send everything, tokens too, for all on the way to read."""

    def __repr__(self) -> str:
        return "Connection(...)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []

    @property
    def address(self) -> Address:
        return read_address(self.url, "connect")

    @property
    def is_private(self) -> bool:
        """Whether TLS hides what is sent. As in Spark, a token asks for it unless it is for localhost."""
        if self.plain_text or self.address.use_ssl is False:
            return False
        if self.ca_file is not None or self.address.use_ssl:
            return True
        return self._has_token and self.address.host != "localhost"

    @property
    def _has_token(self) -> bool:
        return any(given is not None for given in (self.address.token, self.token_env, self.token_file))


def check_connection(connection: Connection, path: str) -> Connection:
    """Refuse what contradicts itself, and secrets in plain text to other machines. `path`: the field."""
    address = read_address(connection.url, path)
    sources = (address.token, connection.token_env, connection.token_file)
    if sum(source is not None for source in sources) > 1:
        raise InputError(
            "found more than one token",
            field=path,
            remedy="keep one of token_env, token_file and the token in the address",
        )
    if connection.ca_file is not None and (connection.plain_text or address.use_ssl is False):
        raise InputError(
            "found ca_file together with plain_text, which uses no certificate",
            field=path,
            remedy="remove one of them",
        )
    if connection.plain_text and address.use_ssl:
        raise InputError("found plain_text together with use_ssl", field=path, remedy="remove one of them")
    tells = any(source is not None for source in sources) or bool(address.headers)
    if tells and not (connection.is_private or connection.plain_text or address.is_loopback):
        raise InputError(
            f"a token or header for {address} would cross the network in plain text",
            field=path,
            remedy="add /;use_ssl=true to the address (ca_file names a CA of your own), or plain_text: true "
            "where the network is trusted",
        )
    return connection


class Site(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    capacity: float
    """Cores available to operators."""
    memory_mb: float | None = None
    """Memory available to operators; None: not limited."""
    labels: tuple[str, ...] = ()
    """What goals call it by, with others."""
    max_utilisation: float = 1.0
    """The largest share of its cores in use at the present and the minimum rates; 1: no goal."""
    reserve: float = 0.0
    """The share of its cores that stays free then."""
    resources: dict[str, float] | None = None
    """What it has of named resources."""
    price: float = 1.0
    """Of using it at all, in any unit."""
    connect: Connection | None = None
    """None: Mooring starts a Spark of its own."""

    def __repr__(self) -> str:
        shown = "" if self.connect is None else ", connect=..."
        return f"Site({self.name!r}, capacity={self.capacity:g}{shown})"
