"""The runner hears agents and talks to them without waiting."""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from mooring.agents.agent import Agent, AgentSettings
from mooring.agents.project_members import ProjectMembers
from mooring.agents.runner_endpoint import Letter, RunnerPost
from mooring.agents.transport.certificates import CertificateFolder
from mooring.agents.transport.members import Members
from mooring.contracts.hosted_protocol import HostedProtocol
from mooring.contracts.site_machine import Asked, Effect, Event, Output, Received, Send
from mooring.errors import EngineError
from tests.agents.scene import EAGER, PATIENCE_S


class Clerk:
    """Answers the runner, and tells what it is asked."""

    def __init__(self, site: int, sites: int, generator: np.random.Generator) -> None:
        self._runner = sites

    def next_timer(self) -> None:
        return None

    def handle(self, event: Event, now_ms: float) -> tuple[Effect, ...]:
        match event:
            case Received(sender=sender, message=str(said)) if sender == self._runner:
                return (Send(sender, f"heard {said}"),)
            case Asked(request=int(amount)):
                return (Output(amount + 1),)
        return ()


CLERK = HostedProtocol("clerk", Clerk, messages=str, durable=str, requests=int, outputs=int)


@pytest.fixture
def project(members: Members, certificates: CertificateFolder) -> ProjectMembers:
    return ProjectMembers(members, certificates)


@pytest.fixture
def berlin(project: ProjectMembers) -> Iterator[str]:
    """An agent in a thread of its own."""
    settings = AgentSettings("berlin", project.members, project.certificates, back_off=EAGER, on_disk=False)
    stop: list[Callable[[], object]] = []

    async def run() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        stop.append(lambda: loop.call_soon_threadsafe(ended.set))
        await Agent(settings, [CLERK], io.StringIO()).run(ended)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    yield "berlin"
    stop[0]()
    thread.join()


def polled(post: RunnerPost, count: int) -> list[Letter]:
    letters: list[Letter] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(letters) < count and time.monotonic() < deadline:
        letters += post.poll()
        time.sleep(0.01)
    return letters


def test_messages_and_requests_reach_a_machine_and_its_answers_come_back(
    project: ProjectMembers, berlin: str
) -> None:
    with RunnerPost(project, [CLERK], back_off=EAGER) as post:
        assert post.poll() == []
        post.send(berlin, "clerk", "hello")
        post.ask(berlin, "clerk", 41)
        assert set(polled(post, 2)) == {
            Letter(berlin, "clerk", "message", "heard hello"),
            Letter(berlin, "clerk", "output", 42),
        }
        assert post.reached == (berlin,)
        post.send("cairo", "clerk", "nobody is there")  # and nobody waits


def test_what_is_kept_is_no_letter_that_waits_to_be_fetched(project: ProjectMembers, berlin: str) -> None:
    kept: list[tuple[str, object]] = []

    def keep(members: Members, keeper: str, output: object) -> None:
        kept.append((keeper, output))

    with RunnerPost(project, [CLERK], back_off=EAGER, keep={"clerk": keep}) as post:
        post.ask(berlin, "clerk", 41)
        post.send(berlin, "clerk", "after it")
        assert polled(post, 1) == [Letter(berlin, "clerk", "message", "heard after it")]
        assert kept == [("runner", 42)]


def test_there_is_one_runner_at_a_time(project: ProjectMembers) -> None:
    with RunnerPost(project, [CLERK]), pytest.raises(EngineError, match="already runs"):
        RunnerPost(project, [CLERK])
    RunnerPost(project, [CLERK]).close()


def test_a_post_that_has_ended_by_itself_says_so_and_can_still_be_closed(project: ProjectMembers) -> None:
    with RunnerPost(project, [CLERK]) as post:
        loop = post._loop
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        post._thread.join(PATIENCE_S)
        with pytest.raises(EngineError, match=r"has ended.*CancelledError"):
            post.poll()
        with pytest.raises(EngineError, match="has ended"):
            post.send("berlin", "clerk", "hello")
