"""What a Kafka topic holds, for a profile: read once, from its beginning to its present end.

A batch keeps no offsets at the broker, so whoever reads the topic as a stream goes on undisturbed.
"""

from __future__ import annotations

from collections.abc import Mapping

_STREAMING_ONLY = (
    *("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"),
    *("startingoffsetsbytimestampstrategy", "failondataloss", "kafka.group.id"),
    *("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay"),
)


def topic_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options of a batch that reads what the stream with `options` would.

    >>> topic_options({"subscribe": "orders", "startingOffsets": "latest", "maxOffsetsPerTrigger": "10"})
    {'subscribe': 'orders', 'startingOffsets': 'earliest', 'endingOffsets': 'latest'}
    """
    kept = {name: value for name, value in options.items() if name.lower() not in _STREAMING_ONLY}
    return kept | {"startingOffsets": "earliest", "endingOffsets": "latest"}
