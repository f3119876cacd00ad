"""Frames: whole or not at all, and never larger than allowed."""

from __future__ import annotations

import asyncio

import pytest

from mooring.agents.transport.frames import FrameError, framed, read_frame


def read_all(data: bytes, most_bytes: int) -> list[bytes]:
    async def read() -> list[bytes]:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        frames = []
        while not reader.at_eof():
            frames.append(await read_frame(reader, most_bytes))
        return frames

    return asyncio.run(read())


def test_frames_come_out_as_they_went_in() -> None:
    assert read_all(framed(b"one") + framed(b"") + framed(b"three"), 10) == [b"one", b"", b"three"]


def test_a_gigabyte_is_refused_by_its_announcement() -> None:
    with pytest.raises(FrameError) as refused:
        read_all((1 << 30).to_bytes(4, "big"), 1000)
    assert refused.value.reason == "oversized"


def test_nothing_is_sent_that_would_be_refused() -> None:
    with pytest.raises(FrameError):
        framed(b"x" * 11, 10)


def test_half_a_frame_is_none() -> None:
    with pytest.raises(asyncio.IncompleteReadError):
        read_all(framed(b"half")[:-1], 10)
