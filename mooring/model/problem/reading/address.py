"""Spark Connect addresses, `sc://host:port/;name=value;...`, taken apart without ever showing one.

An address may carry a token, and a mistyped one may carry it anywhere: as a user's password, behind the wrong
separator, under an unknown name. So complaints say what is wrong and where, and never what was found.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn
from urllib.parse import unquote

from mooring.errors import InputError

DEFAULT_PORT = 15002
EXAMPLE = "sc://host:15002, with /;token=... or /;use_ssl=true after it where needed"
_SHAPE = re.compile(r"sc://(?P<authority>[^/;]*)(?:/(?:;(?P<parameters>.*))?)?", re.DOTALL)
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?")
_NAME = re.compile(r"[a-z0-9_.-]+")
_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?")
"""What may be sent as a header. gRPC refuses anything else in an error that shows it."""
_NUMBERS = ("grpc_keepalive_time_ms", "grpc_keepalive_timeout_ms")
_SWITCHES = ("use_ssl", "grpc_keepalive_enabled", "grpc_keepalive_without_calls")
_HARMLESS = ("user_id", "user_agent", *_NUMBERS, *_SWITCHES)
"""What Spark's client takes for itself. Any other name is a header, and may well be a secret."""


@dataclass(frozen=True)
class Address:
    host: str
    """As gRPC takes it: IPv6 in brackets."""
    port: int
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By name, in lower case; decoded."""

    def __str__(self) -> str:
        """Fit for anybody: where, and nothing else."""
        return f"sc://{self.host}:{self.port}"

    @property
    def token(self) -> str | None:
        return self.parameters.get("token")

    @property
    def headers(self) -> dict[str, str]:
        """What goes along with every call, as it is."""
        return {name: value for name, value in self.parameters.items() if name not in ("token", *_HARMLESS)}

    @property
    def options(self) -> dict[str, str]:
        """What Spark's client takes for itself."""
        return {name: value for name, value in self.parameters.items() if name in _HARMLESS}

    @property
    def use_ssl(self) -> bool | None:
        """None where the address does not say."""
        said = self.parameters.get("use_ssl")
        return None if said is None else said == "true"

    @property
    def is_loopback(self) -> bool:
        """Whether it names this machine, and nothing sent there leaves it."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_address(text: str, path: str) -> Address:
    """`path` is the field that says it."""
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        _refuse("that is not a Spark Connect address", text, path)
    if "@" in shape["authority"]:
        _refuse("with a user or password before its host, which Spark Connect does not support", text, path)
    authority = _AUTHORITY.fullmatch(shape["authority"])
    if authority is None:
        _refuse("without a readable host and port", text, path)
    port = int(authority["port"] or DEFAULT_PORT)
    if not 0 < port < 1 << 16:
        _refuse("with a port beyond 65535", text, path)
    return Address(authority["host"], port, _parameters(shape["parameters"] or "", text, path))


def _parameters(listed: str, text: str, path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, item in enumerate((item for item in listed.split(";") if item), start=1):
        name, equals, value = item.partition("=")
        name, value = name.lower(), unquote(value)
        if not equals or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            _refuse(f"whose parameter {number} is not NAME=VALUE in plain characters", text, path)
        if name in found:
            _refuse(f"whose parameter {number} occurs twice", text, path)
        if name == "session_id":
            _refuse("that sets session_id, which Mooring chooses per fragment", text, path)
        if name in _SWITCHES:
            value = value.lower()
        if (name in _SWITCHES and value not in ("true", "false")) or (
            name in _NUMBERS and not value.isdigit()
        ):
            expected = "true or false" if name in _SWITCHES else "a whole number"
            _refuse(f"whose {name} is not {expected}", text, path)
        found[name] = value
    return found


def _refuse(what: str, text: str, path: str) -> NoReturn:
    raise InputError(
        f"found an address of {len(text)} characters {what}", field=path, remedy=f"write it as {EXAMPLE}"
    )
