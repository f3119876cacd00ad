"""The service put together: the interface, the events, the metrics and the page, behind the guard."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from mooring.service.view.planning_desk import PlanningDesk
from mooring.service.view.run_view import RunView
from mooring.service.web.answers import document, plain
from mooring.service.web.desk_routes import DeskRoutes
from mooring.service.web.feed import Feed
from mooring.service.web.guard import Guard, Rules
from mooring.service.web.metrics import RunCollector
from mooring.service.web.openapi import openapi_document
from mooring.service.web.page_files import page_routes
from mooring.service.web.run_routes import RunRoutes

LOOK_S = 0.25
"""Seconds between two looks at a run's files."""


def run_app(view: RunView, rules: Rules) -> Guard:
    """Over a run."""
    feed, registry = Feed(), CollectorRegistry()
    registry.register(RunCollector(view))

    async def events(request: Request) -> Response:
        if feed.is_full:
            error = {
                "kind": "Busy",
                "message": "found as many followers as there may be",
                "remedy": "come back later",
            }
            return document({"error": error}, 429)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(feed.follow(), media_type="text/event-stream", headers=headers)

    async def metrics(request: Request) -> Response:
        text = await run_in_threadpool(generate_latest, registry)
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST, "cache-control": "no-store"})

    async def ready(request: Request) -> Response:
        known = "waiting" not in view.document and view.source.runs
        return document({"state": "ready" if known else "waiting"}, 200 if known else 404)

    @contextlib.asynccontextmanager
    async def watching(app: Starlette) -> AsyncIterator[None]:
        watcher = asyncio.create_task(_watch(view, feed))
        try:
            yield
        finally:
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher
            view.history.write()

    routes = [
        *RunRoutes(view).routes(),
        Route("/api/v1/events", events, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
        Route("/readyz", ready, methods=["GET"]),
    ]
    return _app(routes, rules, "run", lifespan=watching)


def desk_app(desk: PlanningDesk, rules: Rules) -> Guard:
    """Over a problem file."""
    return _app(DeskRoutes(desk).routes(), rules, "desk")


def _app(routes: list[Route], rules: Rules, kind: str, **options: Any) -> Guard:
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
    return Guard(app, rules)


async def _watch(view: RunView, feed: Feed) -> None:
    """Look at the run again and again; what is new goes to everybody who follows."""
    while True:
        if await run_in_threadpool(view.look):
            await feed.publish(json.dumps(plain(view.document), allow_nan=False).encode())
        await asyncio.sleep(LOOK_S)
