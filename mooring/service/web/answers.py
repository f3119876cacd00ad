"""Documents and errors as responses: the same keys and words as the command line's `--json`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mooring.errors import EngineError, InfeasibleError, InputError, MooringError
from mooring.plain_json import plain
from mooring.service.view.errors import BusyError, ChangedError, NotYetError

Body = TypeVar("Body", bound=msgspec.Struct)
Handler = Callable[[Request], Awaitable[Response]]
_STATUS: tuple[tuple[type[MooringError], int], ...] = (
    (NotYetError, 404),
    (BusyError, 429),
    (ChangedError, 409),
    (InputError, 400),
    (InfeasibleError, 409),
    (EngineError, 409),
)


def document(content: object, status: int = 200) -> Response:
    return Response(
        json.dumps(plain(content), allow_nan=False),
        status,
        media_type="application/json",
        headers={"cache-control": "no-store"},
    )


def answering(make: Callable[[Request], Any], status: int = 200) -> Handler:
    """A handler that works in a thread of its own and answers with what `make` returns or raises."""

    async def handle(request: Request) -> Response:
        try:
            # Only a change has one; it was read, and found short enough, before it came here.
            request.state.body = b"" if request.method in ("GET", "HEAD") else await request.body()
            return document(await run_in_threadpool(make, request), status)
        except MooringError as error:
            return failed(error)

    return handle


def failed(error: MooringError) -> Response:
    code = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    return JSONResponse({"error": plain(error.as_json())}, code, {"cache-control": "no-store"})


def given(request: Request, kind: type[Body]) -> Body:
    """The body, which is read by then, field by field."""
    try:
        return msgspec.json.decode(request.state.body or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InputError(f"found an invalid body: {wrong}", remedy="see /api/v1/openapi.json") from wrong


def whole_number(request: Request, name: str, default: int, least: int, most: int) -> int:
    """Of the address's `?name=`."""
    text = request.query_params.get(name)
    if text is None:
        return default
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not least <= number <= most:
        raise InputError(f"found {text[:40]!r}, expected a whole number from {least} to {most}", field=name)
    return number
