"""Access control: the first check of every request.

Anybody's page can make a browser send requests to this machine, so a request that names another host or comes
from another origin is refused, changes need the token always, and only JSON of bounded size and slowness is
read. Beyond loopback reading needs the token too.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

Message = dict[str, Any]
MOST_BYTES = 65_536
BODY_PATIENCE_S = 10.0
_SAFE = ("GET", "HEAD")
_PRIVATE = ("/api/v1/logs",)
"""Read with the token even on loopback: logs are files that only their user can read."""
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


@dataclass(frozen=True)
class Refusal:
    status: int
    message: str
    remedy: str


@dataclass(frozen=True)
class Rules:
    token: str
    hosts: Collection[str]
    """Names and addresses by which the service may be called, at any port; `*.NAME` is every name one step
    below, as in certificates."""
    reading_is_open: bool
    """Documents are given out without the token: on loopback only."""

    def refuse(self, method: str, path: str, headers: dict[str, str], at: str = "") -> Refusal | None:
        """None: it may go on. `at` is the address where the request arrived, by which the service may be
        called too: no other site's name leads to a page that names it.
        """
        host = _name(headers.get("host", ""))
        if not {host, f"*.{host.partition('.')[2]}"} & set(self.hosts) and (not at or host != at):
            return Refusal(421, f"found the host {host[:80]!r}", f"expected one of {', '.join(self.hosts)}")
        if not path.startswith(("/api/", "/metrics")):
            return None
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return Refusal(
                403, f"found the origin {origin[:80]!r}", "open the page at the address of this service"
            )
        if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return Refusal(403, "found a request from another site's page", "open the page of this service")
        changes = method not in _SAFE
        barred = changes or path.startswith(_PRIVATE) or not self.reading_is_open
        if barred and not self._knows(headers.get("authorization", "")):
            return Refusal(
                401,
                "found no valid token",
                "send `Authorization: Bearer TOKEN` with the token in .mooring/token, or open the page at "
                "the address that `mooring` printed",
            )
        if changes and headers.get("content-type", "").split(";")[0].strip() != "application/json":
            return Refusal(415, "found another content type", "send `Content-Type: application/json`")
        return None

    def _knows(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode())


class Guard:
    """Wraps an ASGI application."""

    def __init__(self, app: Any, rules: Rules, close: Callable[[], Awaitable[None]] | None = None) -> None:
        """`close` is awaited when the server ends, before it waits for its connections."""
        self.app, self._rules, self._close = app, rules, close

    async def close(self) -> None:
        if self._close is not None:
            await self._close()

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        at = (scope.get("server") or ("",))[0]
        refusal = self._rules.refuse(scope["method"], scope["path"], headers, at)
        if refusal is None and scope["method"] not in _SAFE:
            refusal, receive = await _whole_body(receive, headers)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = {key for key, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(h for h in _HEADERS if h[0] not in kept)]
            await send(message)

        if refusal is None:
            await self.app(scope, receive, send_guarded)
        else:
            await _send_refusal(send_guarded, refusal)


async def _whole_body(receive: Any, headers: dict[str, str]) -> tuple[Refusal | None, Any]:
    """The body read whole before anything else happens, as far as it is neither long nor slow."""
    too_long = Refusal(413, f"found more than {MOST_BYTES} bytes", "send a smaller request")
    announced = headers.get("content-length", "0")
    if not (announced.isascii() and announced.isdigit()) or int(announced) > MOST_BYTES:
        return too_long, receive
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(BODY_PATIENCE_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return Refusal(400, "found an incomplete request", "send the complete request"), receive
                parts.append(message.get("body", b""))
                if sum(map(len, parts)) > MOST_BYTES:
                    return too_long, receive
                if not message.get("more_body"):
                    break
    except TimeoutError:
        return Refusal(
            408, f"the body did not arrive within {BODY_PATIENCE_S:g} s", "send it at once"
        ), receive
    body = b"".join(parts)
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return None, again


async def _send_refusal(send: Any, refusal: Refusal) -> None:
    document = {"error": {"kind": "Refused", "message": refusal.message, "remedy": refusal.remedy}}
    body = json.dumps(document).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.status in (408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _name(host: str) -> str:
    """Without the port.

    >>> _name("localhost:8080"), _name("[::1]:80"), _name("desk")
    ('localhost', '::1', 'desk')
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
