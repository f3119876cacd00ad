"""Every message inside a plan as it would be sent to Spark (protobuf)."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message


def messages_in(message: Message) -> Iterator[Message]:
    """The message itself and all within it, each before what it holds."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            inner = [item for item in value.values() if isinstance(item, Message)]
        else:
            inner = list(value) if field.is_repeated else [value]
        for item in inner:
            yield from messages_in(item)
