"""Damage of a document shows, whatever was damaged; documents without a checksum are read as they are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.checksum import DamagedError, checked, with_sum

DOCUMENTS = st.dictionaries(st.text(max_size=4).filter(lambda key: key != "sum"), st.integers() | st.text())


@given(DOCUMENTS, st.sampled_from([None, 1]))
def test_a_document_comes_back_and_stays_one_json_object(document: dict[str, object], indent: int) -> None:
    kept = with_sum(json.dumps(document, indent=indent).encode() + b"\n")
    assert json.loads(checked(kept + b"\n")) == document
    told = json.loads(kept)
    del told["sum"]
    assert told == document


@given(DOCUMENTS, st.data())
def test_no_flipped_bit_passes_for_the_content(document: dict[str, object], data: st.DataObject) -> None:
    kept = bytearray(with_sum(json.dumps(document).encode()))
    kept[data.draw(st.integers(0, len(kept) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = json.loads(checked(bytes(kept)))
    except ValueError:
        return
    # The name of the field itself was hit: the content is what was written, beside a field nobody knows.
    assert {**found, **document} == found


@given(DOCUMENTS, st.data())
def test_no_part_of_a_document_passes_for_it(document: dict[str, object], data: st.DataObject) -> None:
    kept = with_sum(json.dumps(document).encode())
    with pytest.raises(ValueError):  # noqa: PT011
        json.loads(checked(kept[: data.draw(st.integers(0, len(kept) - 1))]))


def test_damage_is_told_from_other_mistakes() -> None:
    with pytest.raises(DamagedError, match=r"its checksum is [0-9a-f]{8}, that of its content [0-9a-f]{8}"):
        checked(with_sum(b'{"a": 1}').replace(b"1", b"2", 1))


def test_a_document_of_an_earlier_version_is_read_as_it_is() -> None:
    assert checked(b'{"start": 0}\n') == b'{"start": 0}\n'
