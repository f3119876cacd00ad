"""What agents and the runner say to each other on a connection.

Whoever dials sends frames on that connection and the other end receives, so two peers have one connection
each way. Both begin with a `Greeting`; after that only the dialling end speaks, in `Envelope`s.

Envelopes are numbered through the whole life of the sending process, over all its connections to a peer. One
with a number that was seen, or from a process that a newer one has replaced, is recognised and dropped: TLS
keeps strangers from repeating what was sent, the numbers keep an old process or connection from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from mooring.protocols.protocol import Data
from mooring.runtime.transport.frames import FrameError

WIRE_VERSION = 1

Kind = Literal["message", "request", "output"]
"""Between machines, the runner being one of them; from the runner to a site's machine (`Asked`); from one to
the runner (`Output`)."""


class Greeting(msgspec.Struct, frozen=True, array_like=True):
    version: int
    members: str
    """Digest of the names of all sites in their order: machines call sites by number."""
    incarnation: int
    """How often the sender has been started before."""


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    number: int
    kind: Kind
    protocol: str
    content: msgspec.Raw


_encode = msgspec.msgpack.Encoder().encode


def members_digest(names: Sequence[str]) -> str:
    return hashlib.sha256(msgspec.json.encode(list(names))).hexdigest()[:16]


def encode_greeting(greeting: Greeting) -> bytes:
    return _encode(greeting)


def encode_envelope(number: int, kind: Kind, protocol: str, content: Data) -> bytes:
    return _encode(Envelope(number, kind, protocol, msgspec.Raw(_encode(content))))


class StrictDecoder:
    """Bytes to one type, every field checked; anything else is a `FrameError`, whatever the bytes are."""

    def __init__(self, kind: Any) -> None:
        self._decoder = msgspec.msgpack.Decoder(kind, strict=True)

    def __call__(self, frame: bytes | msgspec.Raw) -> Any:
        try:
            return self._decoder.decode(frame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise FrameError("malformed", str(error)) from None


decode_greeting = StrictDecoder(Greeting)
decode_envelope = StrictDecoder(Envelope)
