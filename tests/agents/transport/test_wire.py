"""Whatever bytes come, they are a well-formed message or an error that is counted."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.agents.survey_agents import hosted_survey
from mooring.agents.transport.frames import FrameError
from mooring.agents.transport.wire import (
    Envelope,
    StrictDecoder,
    decode,
    decode_envelope,
    decode_greeting,
    encode_envelope,
)
from mooring.coordination.gossip import Entries, Entry, KnownVersions, Reply
from mooring.coordination.survey import EchoAsked, Echoed, SiteFigures
from mooring.model.network.coordinate import Coordinate

SURVEY = hosted_survey()

numbers = st.floats(allow_nan=False)
coordinates = st.builds(Coordinate, st.tuples(numbers, numbers), numbers, numbers)
sites = st.integers(0, 100)
figures = st.builds(SiteFigures, coordinates, st.lists(st.tuples(sites, numbers), max_size=4).map(tuple))
entries = st.lists(st.builds(Entry, sites, st.integers(0, 2**40), figures), max_size=4).map(tuple)
messages = st.one_of(
    st.builds(EchoAsked, numbers),
    st.builds(Echoed, numbers, coordinates),
    st.builds(KnownVersions, st.lists(sites, max_size=8).map(tuple)),
    st.builds(Reply, entries, st.lists(sites, max_size=4).map(tuple)),
    st.builds(Entries, entries),
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | numbers | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(messages, st.integers(0, 2**62))
def test_messages_come_out_as_they_went_in(message: object, number: int) -> None:
    envelope = decode_envelope(encode_envelope(number, "message", "survey", message))
    assert envelope.number == number
    assert decode(SURVEY, envelope) == message


@given(st.binary(max_size=200))
def test_garbage_is_a_counted_error_and_nothing_else(garbage: bytes) -> None:
    for decoding in (decode_envelope, decode_greeting, StrictDecoder(SURVEY.messages)):
        with contextlib.suppress(FrameError):
            decoding(garbage)


@given(plain)
def test_well_formed_data_of_other_types_is_refused_or_of_the_types(data: object) -> None:
    envelope = Envelope(1, "message", "survey", msgspec.Raw(msgspec.msgpack.encode(data)))
    with contextlib.suppress(FrameError):
        assert isinstance(decode(SURVEY, envelope), EchoAsked | Echoed | KnownVersions | Reply | Entries)


@given(messages, st.data())
def test_a_message_with_a_byte_changed_is_a_message_or_refused(message: object, data: st.DataObject) -> None:
    frame = bytearray(encode_envelope(7, "message", "survey", message))
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FrameError):
        decode(SURVEY, decode_envelope(bytes(frame)))


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(FrameError):
        StrictDecoder(SURVEY.messages)(b"\x91" * 100_000)


def test_a_protocol_takes_only_the_kinds_it_knows() -> None:
    frame = encode_envelope(1, "request", "survey", "anything")
    with pytest.raises(FrameError) as refused:
        decode(SURVEY, decode_envelope(frame))
    assert refused.value.reason == "unknown"
