"""Frames wait in bounded number, and the newest stay."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mooring.agents.transport.peer_link import BackOff, Outbox, PeerLink


def test_the_oldest_frames_go_when_there_are_too_many() -> None:
    async def fill_and_take() -> list[bytes]:
        outbox = Outbox(counts, most=2)
        for frame in (b"1", b"2", b"3"):
            outbox.put("any", frame)
        return [(await outbox.take())[1] for _ in range(len(outbox))]

    counts: Counter[str] = Counter()
    assert asyncio.run(fill_and_take()) == [b"2", b"3"]
    assert counts == {"dropped: outbox full": 1}


def test_who_takes_waits_for_a_frame() -> None:
    async def take_first() -> tuple[str, bytes]:
        outbox = Outbox(Counter())
        taking = asyncio.ensure_future(outbox.take())
        await asyncio.sleep(0)
        assert not taking.done()
        outbox.put("any", b"late")
        return await taking

    assert asyncio.run(take_first()) == ("any", b"late")


@pytest.mark.parametrize("passes", range(8))
def test_a_link_that_is_cancelled_while_its_connection_ends_ends_too(passes: int) -> None:
    """Agents that stopped together could wait for each other's links for good: the cancellation was taken for
    that of the link's own tasks."""

    async def cancelled_after() -> bool:
        members: Any = SimpleNamespace(digest="")
        link = PeerLink("b", members, ssl.create_default_context(), 0, Counter(), BackOff())
        reader, writer = asyncio.StreamReader(), SimpleNamespace()
        using = asyncio.ensure_future(link._send_until_gone(reader, cast(Any, writer)))
        await asyncio.sleep(0)
        reader.feed_eof()
        for _ in range(passes):
            await asyncio.sleep(0)
        was_over = not using.cancel()
        await asyncio.wait({using})
        return was_over or using.cancelled()

    assert asyncio.run(cancelled_after())
