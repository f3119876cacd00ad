"""The checksum of a JSON document that Mooring writes for itself: the last field of the object, over every
byte before it.

It detects damage (a torn write, a flipped bit, half of a copy), not intent. Documents of earlier versions
have none and are read as they are. Lines of a journal are documents too. What Spark reads keeps Spark's form.
"""

from __future__ import annotations

import re
import zlib

_SUM = re.compile(rb',?\s*"sum":\s*"([0-9a-f]{8})"\s*\}\s*\Z')
_LONGEST = 64
"""Bytes, at the end of a document, in which the field is looked for."""


class DamagedError(ValueError):
    """The content is not what was written."""


def with_sum(document: bytes) -> bytes:
    """The same object with one field more. It has no field `sum` of its own.

    >>> with_sum(b'{"start": 0}')
    b'{"start": 0,"sum":"ebfb69a5"}'
    """
    body = document.rstrip().removesuffix(b"}").rstrip()
    comma = b"" if body == b"{" else b","
    return body + comma + b'"sum":"%08x"}' % zlib.crc32(body)


def checked(document: bytes) -> bytes:
    """The object as it was before the field was added. `DamagedError` if the two disagree.

    >>> checked(with_sum(b'{"start": 0}'))
    b'{"start": 0}'
    >>> checked(b'{"start": 1,"sum":"ebfb69a5"}')
    Traceback (most recent call last):
    ...
    mooring.checksum.DamagedError: its checksum is ebfb69a5, that of its content 9cfc5933
    """
    found = _SUM.search(document, max(0, len(document) - _LONGEST))
    if found is None:
        return document
    body = document[: found.start()]
    noted, actual = found[1].decode(), f"{zlib.crc32(body):08x}"
    if noted != actual:
        raise DamagedError(f"its checksum is {noted}, that of its content {actual}")
    return body + b"}"
