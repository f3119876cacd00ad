"""The service over a run: its interface, events and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from mooring.plain_json import plain
from mooring.service.view.history import History
from mooring.service.view.run_source import RunSource
from mooring.service.view.run_view import RunView
from mooring.service.web.answers import document
from mooring.service.web.app import guarded_app
from mooring.service.web.guard import Guard, Rules
from mooring.service.web.listening_place import ListeningPlace
from mooring.service.web.metrics import RunCollector
from mooring.service.web.run_routes import RunRoutes
from mooring.service.web.server import project_token, serve
from mooring.service.web.tls import TlsFiles
from mooring.spark.pipeline.project import work_folder_of
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.runs.system_clock import SystemClock

LOOK_S = 0.25
"""Seconds between two looks at a run's files."""


def serve_run(
    project: Path,
    address: ListeningPlace,
    listening: Callable[[str, str], None],
    tls_files: TlsFiles | None = None,
) -> None:
    """Until a signal ends it; `listening` is called with the address and the token."""
    folder = work_folder_of(project)
    token, files = project_token(folder), RunFiles(folder)
    view = RunView(RunSource(project, SystemClock()), History(folder))
    with contextlib.ExitStack() as noted:

        def told(url: str) -> None:
            noted.enter_context(files.serving_page(url))
            listening(url, token)

        app = partial(run_app, view)
        serve(app, address, token, told, tls_files, preferred_port=files.last_page_port())


def run_app(view: RunView, rules: Rules) -> Guard:
    """Over a run."""
    feed, registry = Feed(), CollectorRegistry()
    registry.register(RunCollector(view))

    async def events(request: Request) -> Response:
        if feed.is_full:
            error = {
                "kind": "Busy",
                "message": "the limit of followers is reached",
                "remedy": "connect again later",
            }
            return document({"error": error}, 429)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(feed.follow(), media_type="text/event-stream", headers=headers)

    async def metrics(request: Request) -> Response:
        text = await run_in_threadpool(generate_latest, registry)
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST, "cache-control": "no-store"})

    async def ready(request: Request) -> Response:
        known = "waiting" not in view.document and view.source.runs
        return document({"state": "ready" if known else "waiting"}, 200 if known else 503)

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
    return guarded_app(routes, rules, "run", feed.close, lifespan=watching)


async def _watch(view: RunView, feed: Feed) -> None:
    """Look at the run again and again; what is new goes to everybody who follows, and so does what there is
    at first, even if that is only that nothing ran yet.
    """
    first = True
    while True:
        if await run_in_threadpool(view.look) or first:
            await feed.publish(json.dumps(plain(view.document), allow_nan=False).encode())
            first = False
        await asyncio.sleep(LOOK_S)


MOST_FOLLOWERS = 200
BEAT_S = 15.0
"""Seconds of silence after which a comment is sent, so that a dead connection is noticed."""


class Feed:
    """Server-sent events: whoever follows gets the newest document, as soon as the connection takes it.

    Nothing is queued. A client that reads slowly misses what came between, never the present state, and a
    hundred clients cost no more memory than one document.
    """

    def __init__(self) -> None:
        self._newest: bytes | None = None
        self._number = 0
        self._changed = asyncio.Condition()
        self.followers = 0
        self._closed = False

    @property
    def is_full(self) -> bool:
        return self.followers >= MOST_FOLLOWERS

    async def publish(self, document: bytes) -> None:
        async with self._changed:
            self._newest = document
            self._number += 1
            self._changed.notify_all()

    async def close(self) -> None:
        """End the stream of everybody who follows."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    async def follow(self) -> AsyncIterator[bytes]:
        """The newest now, and then each time there is a newer one."""
        self.followers += 1
        try:
            sent = 0
            while True:
                try:
                    async with asyncio.timeout(BEAT_S), self._changed:
                        await self._changed.wait_for(lambda: self._closed or self._number > sent)  # noqa: B023
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if self._closed:
                    return
                sent, document = self._number, self._newest
                yield b"event: picture\nid: %d\ndata: %s\n\n" % (sent, document)
        finally:
            self.followers -= 1
