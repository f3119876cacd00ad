"""The page's own files: read once, given out as they are; nothing is loaded from elsewhere."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def page_routes() -> list[Route]:
    """`/` and, under `/page/`, what it asks for."""
    return [
        Route(path, _handler(name), methods=["GET"])
        for name in page_names()
        for path in (["/", "/page/page.html"] if name == "page.html" else [f"/page/{name}"])
    ]


def page_names() -> list[str]:
    folder = files("mooring.service.page")
    return sorted(file.name for file in folder.iterdir() if "." + file.name.rpartition(".")[2] in _TYPES)


def page_file(name: str) -> str:
    return files("mooring.service.page").joinpath(name).read_text()


def _handler(name: str):  # type: ignore[no-untyped-def]
    content = page_file(name).encode()
    kind = _TYPES["." + name.rpartition(".")[2]]
    mark = f'"{hashlib.sha256(content).hexdigest()[:16]}"'

    async def handle(request: Request) -> Response:
        headers = {"etag": mark, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    return handle
