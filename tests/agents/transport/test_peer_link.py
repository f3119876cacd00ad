"""Frames wait in bounded number, and the newest stay."""

from __future__ import annotations

import asyncio
from collections import Counter

from mooring.agents.transport.peer_link import Outbox


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
