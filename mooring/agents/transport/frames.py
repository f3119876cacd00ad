"""Messages as bytes on a connection: a length, then so many bytes, and never more than is allowed."""

from __future__ import annotations

import asyncio
import struct

from mooring.errors import MooringError

MOST_FRAME_BYTES = 256 * 1024
"""The largest message of today's protocols, gossip among a thousand sites, takes a tenth of it."""
_LENGTH = struct.Struct(">I")


class FrameError(MooringError):
    """What came on a connection is not what peers of this project send. `reason` is what is counted."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


def framed(body: bytes, most_bytes: int = MOST_FRAME_BYTES) -> bytes:
    """
    >>> framed(b"abc")
    b'\\x00\\x00\\x00\\x03abc'
    """
    if len(body) > most_bytes:
        raise FrameError("oversized", f"{len(body)} bytes, the limit is {most_bytes}")
    return _LENGTH.pack(len(body)) + body


async def read_frame(reader: asyncio.StreamReader, most_bytes: int = MOST_FRAME_BYTES) -> bytes:
    """The next frame. Nothing is set aside for what is only announced: an oversized one is refused by its
    length, before any of it is read."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > most_bytes:
        raise FrameError("oversized", f"{length} bytes announced, the limit is {most_bytes}")
    return await reader.readexactly(length)
