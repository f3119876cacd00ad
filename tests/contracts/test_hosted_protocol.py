"""Protocols as agents host them."""

from __future__ import annotations

import msgspec
import pytest

from mooring.agents.transport.frames import FrameError
from mooring.agents.transport.wire import Envelope, decode
from mooring.algorithms.catalogue import HOSTED, hosted_protocol
from mooring.contracts.hosted_protocol import HostedProtocol


class Plain(msgspec.Struct, frozen=True, tag=True):
    number: int


class Listed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    number: int


def hosted(messages: object) -> HostedProtocol:
    return HostedProtocol(
        "numbers", make=lambda *_: pytest.fail("no machine is made"), messages=messages, durable=int
    )


@pytest.mark.parametrize("name", HOSTED)
def test_what_agents_host_can_be_told_apart_on_the_wire(name: str) -> None:
    assert hosted_protocol(name).name == name


def test_types_that_cannot_be_told_apart_are_found_before_any_message() -> None:
    with pytest.raises(TypeError):
        hosted(Plain | Listed)


def test_what_a_protocol_does_not_take_is_said() -> None:
    with pytest.raises(FrameError, match="numbers has no message request"):
        decode(
            hosted(Plain), Envelope(0, "request", "numbers", msgspec.Raw(msgspec.msgpack.encode(Plain(1))))
        )
