"""The parts that every service has: the page, its health, a description of its interface, and the guard."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mooring.service.view.page_sources import TYPES, page_file, page_names, suffix_of
from mooring.service.web.answers import document
from mooring.service.web.guard import Guard, Rules
from mooring.service.web.openapi import openapi_document


def guarded_app(
    routes: list[Route],
    rules: Rules,
    kind: str,
    close: Callable[[], Awaitable[None]] | None = None,
    **options: Any,
) -> Guard:
    """`close` is awaited when the server ends; `options` are the framework's."""
    described = openapi_document(kind)

    async def healthy(request: Request) -> Response:
        return document({"state": "up"})

    async def openapi(request: Request) -> Response:
        return document(described)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        what = {"kind": "Refused", "message": error.detail, "remedy": "see /api/v1/openapi.json"}
        answer = document({"error": what}, error.status_code)
        answer.headers.update(error.headers or {})
        return answer

    everywhere = [
        Route("/healthz", healthy, methods=["GET"]),
        Route("/api/v1/openapi.json", openapi, methods=["GET"]),
        *page_routes(),
    ]
    app = Starlette(routes=[*routes, *everywhere], exception_handlers={HTTPException: refused}, **options)
    return Guard(app, rules, close)


def page_routes() -> list[Route]:
    """`/` and, under `/page/`, what it asks for."""
    return [
        Route(path, _handler(name), methods=["GET"])
        for name in page_names()
        for path in (["/", "/page/page.html"] if name == "page.html" else [f"/page/{name}"])
    ]


def _handler(name: str) -> Callable[[Request], Awaitable[Response]]:
    content = page_file(name).encode()
    kind = TYPES[suffix_of(name)]
    mark = f'"{hashlib.sha256(content).hexdigest()[:16]}"'

    async def handle(request: Request) -> Response:
        headers = {"etag": mark, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    return handle
