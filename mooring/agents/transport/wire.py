"""The messages of agents and the runner on a connection.

The dialling end sends frames and the other end receives, so two peers have one connection each way. Both
begin with a `Greeting`; after that only the dialling end sends, in `Envelope`s.

Envelopes are numbered through the whole life of the sending process, over all its connections to a peer. One
with a number that was seen, or from a process that a newer one has replaced, is recognised and dropped: TLS
keeps strangers from repeating what was sent, the numbers keep an old process or connection from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from mooring.agents.transport.frames import FrameError
from mooring.contracts.hosted_protocol import HostedProtocol, Kind
from mooring.contracts.site_machine import Data
from mooring.coordination.claims import plain_claims

WIRE_VERSION = 1


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
        return _decoded(self._decoder, frame)


def _decoded(decoder: msgspec.msgpack.Decoder[Any], frame: bytes | msgspec.Raw) -> Any:
    try:
        return decoder.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError("malformed", str(error)) from None


decode_greeting = StrictDecoder(Greeting)
decode_envelope = StrictDecoder(Envelope)


def decode(protocol: HostedProtocol, envelope: Envelope) -> Data:
    decoder = protocol.decoders.get(envelope.kind)
    if decoder is None:
        raise FrameError("unknown", f"{protocol.name} has no message {envelope.kind}")
    content: Data = _decoded(decoder, envelope.content)
    return content


def judged(protocol: HostedProtocol, envelope: Envelope, sender: int, receiver: int, sites: int) -> Data:
    """What one member sent another, the runner being the one after the last site."""
    content = decode(protocol, envelope)
    claims = protocol.claims or plain_claims
    if why := claims(sender, receiver, sites, content):
        raise FrameError("untrue", f"{type(content).__name__}: {why}")
    return content
