"""The order of an update: which fragments take part, and after which others each may begin."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class UpdateOrder:
    """Fragments read what there is when they begin, so each begins when all that write its inputs have ended.

    >>> order = UpdateOrder({"raw": (), "clean": ("raw",), "daily": ("clean",)}, ("raw", "clean"))
    >>> order.ready(begun=())
    ['raw']
    >>> order.ready(begun=("raw",)), order.ready(begun=("raw",), ended=("raw",))
    ([], ['clean'])
    """

    reads: Mapping[str, Collection[str]]
    """Fragment -> those whose output it reads."""
    chosen: Collection[str]
    """Those that take part; of the others, what they have written so far is read as it is."""
    anew: Collection[str] = ()
    """Of those, the ones that forget what they have read and written, and begin from the beginning."""
    writes: Mapping[str, str] = field(default_factory=dict)
    """Fragment -> the table or sink that it writes, where that has another name."""

    def ready(self, begun: Collection[str], ended: Collection[str] = ()) -> list[str]:
        """Those that may begin, of those that have not."""
        return [
            name
            for name in self.reads
            if name in self.chosen and name not in begun and not self.awaited(name, ended)
        ]

    def awaited(self, fragment: str, ended: Collection[str]) -> list[str]:
        """What has to end before the fragment may begin."""
        return [name for name in self.reads[fragment] if name in self.chosen and name not in ended]

    def unreached(self, ended: Iterable[str]) -> list[str]:
        """Those of the update that have not ended."""
        done = set(ended)
        return [name for name in self.reads if name in self.chosen and name not in done]
