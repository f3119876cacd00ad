"""The address of a service."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from mooring.errors import InputError


@dataclass(frozen=True)
class ListeningPlace:
    host: str
    port: int
    """0: any that is free."""

    @classmethod
    def parse(cls, text: str) -> ListeningPlace:
        """`PORT`, `HOST:PORT` or `[IPV6]:PORT`.

        >>> ListeningPlace.parse("8080"), ListeningPlace.parse("[::1]:0")
        (ListeningPlace(host='127.0.0.1', port=8080), ListeningPlace(host='::1', port=0))
        """
        host, _, port = text.rpartition(":")
        host = (host or "127.0.0.1").strip("[]")
        if not (port.isascii() and port.isdigit() and int(port) < 65536):
            raise InputError(f"found {text!r}, expected PORT or HOST:PORT", field="the address to listen at")
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_everywhere(self) -> bool:
        """At every address of this machine."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    @property
    def shown_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host
