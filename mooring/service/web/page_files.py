"""The page's own files: read once, given out as they are; nothing is loaded from elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mooring.service.view.page_sources import TYPES, page_file, page_names, suffix_of


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
