"""The resource directory: the resources of all sites, searched by ranges of several attributes.

As in NodeWiz, the space of all attributes is divided among the sites like a tree: every inner node of it
splits a range of sites into halves by the value of one attribute, so each site is responsible for one box. An
advert goes to the site in whose box its attributes lie, a search to all sites whose boxes overlap with its
own; either takes at most as many hops as the tree is deep, the logarithm of the number of sites.

Which sites a node of the tree has is fixed by their numbers; at which value it splits is not. Samples of the
adverts travel up the tree, and where one half has more than its share the first site of the node (its keeper)
splits it, and everything below it, again at the medians. Adverts are soft state: they are repeated, expire,
and find their new place by themselves. The box of a silent site belongs to its sibling until the site sends
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from mooring.contracts.site_machine import Effect, Send
from mooring.errors import InputError
from mooring.model.network.coordinate import Coordinate

Point = tuple[float, ...]
WHOLE = 1 << 40
"""The weight of a search: its parts are counted down to know when all have answered."""


@dataclass(frozen=True)
class DirectoryParams:
    period_ms: float = 60_000.0
    """Between two repetitions of an advert; changes are advertised at once."""
    lifetime_periods: float = 3.0
    """After which an advert that was not repeated is forgotten."""
    uneven: float = 2.0
    """A node of the tree is split anew when one half has this many times the adverts per site of the
    other."""
    sample: int = 64
    """Adverts that stand for all below a node of the tree."""
    split_by: int | None = None
    """Only the first so many attributes are split by: those that searches narrow. None: all."""

    def __post_init__(self) -> None:
        if not self.period_ms > 0.0 or not self.lifetime_periods > 1.0 or not self.uneven > 1.0:
            raise InputError(
                f"found {self}, expected a period above 0 and the rest above 1", field="directory"
            )


class Advert(msgspec.Struct, frozen=True):
    site: int
    sequence: int
    """Of two adverts of one site the higher is the newer."""
    attributes: Point
    expires_ms: float
    note: Coordinate | None = None
    """Where the site is. The directory does not look at it."""


class Within(msgspec.Struct, frozen=True):
    """A range of one attribute, ends included."""

    attribute: int
    least: float = float("-inf")
    most: float = float("inf")


class Split(msgspec.Struct, frozen=True):
    low: int
    high: int
    """The node of the tree: sites from low up to high, high left out."""
    attribute: int
    value: float
    """Above it an advert belongs to the upper half."""
    version: float


class Advertise(msgspec.Struct, frozen=True, tag=True):
    advert: Advert
    low: int
    high: int
    hops: int


class Stored(msgspec.Struct, frozen=True, tag=True):
    sequence: int


class Withdraw(msgspec.Struct, frozen=True, tag=True):
    sequence: int


class Search(msgspec.Struct, frozen=True, tag=True):
    number: int
    asker: int
    ranges: tuple[Within, ...]
    most: int
    """Of one site's answer."""
    low: int
    high: int
    weight: int
    hops: int


class Answer(msgspec.Struct, frozen=True, tag=True):
    number: int
    adverts: tuple[Advert, ...]
    weight: int
    hops: int


class Sampled(msgspec.Struct, frozen=True, tag=True):
    low: int
    high: int
    points: tuple[Point, ...]
    count: int


class Splits(msgspec.Struct, frozen=True, tag=True):
    splits: tuple[Split, ...]


DirectoryMessage = Advertise | Stored | Withdraw | Search | Answer | Sampled | Splits


class Found(msgspec.Struct, frozen=True):
    """What a search has come to: the newest advert of each site."""

    number: int
    adverts: tuple[Advert, ...]
    hops: int
    """Of the longest way that it took."""
    complete: bool


class _Pending:
    def __init__(self) -> None:
        self.weight = 0
        self.hops = 0
        self.adverts: dict[int, Advert] = {}


class Directory:
    """One site's part. Methods return effects; an answered search is a `Found`."""

    def __init__(self, site: int, sites: int, params: DirectoryParams) -> None:
        self._site, self._sites, self._params = site, sites, params
        self.stored: dict[int, Advert] = {}
        self.splits: dict[tuple[int, int], Split] = {}
        self._samples: dict[tuple[int, int], Sampled] = {}
        self._sequence = 0
        self._holder: int | None = None
        self._pending: dict[int, _Pending] = {}
        self._searches = 0
        self.silent: set[int] = set()
        """Sites that nothing is heard of, as far as this one knows: nothing is sent by way of them."""

    def advertise(self, attributes: Point, note: Coordinate | None, now_ms: float) -> Sequence[Effect]:
        """Tell what this site has, in place of what it told before."""
        # Counted from the clock, so that what a restarted site says is newer than what it said before.
        self._sequence = max(self._sequence + 1, int(now_ms * 1e3))
        lifetime_ms = self._params.period_ms * self._params.lifetime_periods
        advert = Advert(self._site, self._sequence, attributes, now_ms + lifetime_ms, note)
        return self._route(Advertise(advert, 0, self._sites, 0), now_ms)

    def search(self, ranges: tuple[Within, ...], most: int) -> tuple[int, Sequence[Effect]]:
        """Ask for adverts within all ranges; the number names the answer."""
        self._searches += 1
        self._pending[self._searches] = _Pending()
        first = Search(self._searches, self._site, ranges, most, 0, self._sites, WHOLE, 0)
        return self._searches, (Send(self._site, first),)

    def give_up(self, number: int) -> Found | None:
        """What has come in of a search that takes too long."""
        pending = self._pending.pop(number, None)
        return None if pending is None else self._found(number, pending, complete=False)

    def turn(self, now_ms: float) -> Sequence[Effect]:
        """Once per period: forget what has expired, and pass a sample up the tree, splitting anew on the
        way."""
        self.stored = {site: own for site, own in self.stored.items() if own.expires_ms > now_ms}
        points = tuple(own.attributes for own in self.stored.values())
        sample = Sampled(self._site, self._site + 1, points[: self._params.sample], len(points))
        effects: list[Effect] = []
        for low, high in reversed(self._path()):
            if low != self._site:
                return (*effects, Send(low, sample))
            other = self._samples.get((_middle(low, high), high))
            if other is None:
                break
            effects += self._balanced(low, high, sample, other, now_ms)
            sample = self._merged(low, high, sample, other)
        return effects

    def receive(
        self, sender: int, message: DirectoryMessage, now_ms: float
    ) -> tuple[Sequence[Effect], Found | None]:
        match message:
            case Advertise():
                return self._route(message, now_ms), None
            case Search():
                return self._searched(message, now_ms), None
            case Answer():
                return (), self._answered(message)
            case Stored(sequence=sequence):
                old, self._holder = self._holder, sender
                moved = old is not None and old != sender and sequence == self._sequence
                return ((Send(old, Withdraw(sequence)),) if moved and old is not None else ()), None
            case Withdraw(sequence=sequence):
                known = self.stored.get(sender)
                if known is not None and known.sequence < sequence:
                    del self.stored[sender]
            case Sampled():
                self._samples[message.low, message.high] = message
            case Splits(splits=splits):
                return self._adopt(splits, now_ms), None
        return (), None

    def _path(self) -> list[tuple[int, int]]:
        """The nodes of the tree from the whole down to the last above this site."""
        low, high, path = 0, self._sites, []
        while high - low > 1:
            path.append((low, high))
            low, high = _half(low, high, upper=self._site >= _middle(low, high))
        return path

    def _contact(self, low: int, high: int) -> int:
        """A site of a node of the tree; different sites ask different ones."""
        first, count = self._site % (high - low), high - low
        if not self.silent:
            return low + first
        around = (low + (first + k) % count for k in range(count))
        return next((site for site in around if site not in self.silent), low + first)

    def _half_there(self, low: int, high: int, upper: bool) -> tuple[int, int]:
        """A half of a node of the tree, or the other one where nobody of it is heard of."""
        half, other = _half(low, high, upper), _half(low, high, not upper)
        if not self.silent:
            return half
        return half if any(site not in self.silent for site in range(*half)) else other

    def _route(self, message: Advertise, now_ms: float) -> Sequence[Effect]:
        low, high, advert = message.low, message.high, message.advert
        while high - low > 1:
            split = self.splits.get((low, high))
            upper = split is not None and advert.attributes[split.attribute] > split.value
            low, high = self._half_there(low, high, upper)
            if not low <= self._site < high:
                return (Send(self._contact(low, high), Advertise(advert, low, high, message.hops + 1)),)
        known = self.stored.get(advert.site)
        if known is None or known.sequence < advert.sequence:
            # For as long as an advert lasts, whatever it says itself.
            latest_ms = now_ms + self._params.period_ms * self._params.lifetime_periods
            until_ms = min(advert.expires_ms, latest_ms)
            self.stored[advert.site] = msgspec.structs.replace(advert, expires_ms=until_ms)
        return (Send(advert.site, Stored(advert.sequence)),)

    def _searched(self, search: Search, now_ms: float) -> Sequence[Effect]:
        low, high, weight = search.low, search.high, search.weight
        effects: list[Effect] = []
        while high - low > 1:
            sides = self._sides(low, high, search.ranges)
            halves = list(dict.fromkeys(self._half_there(low, high, upper) for upper in sides))
            part = weight // len(halves)
            for half in halves:
                if not half[0] <= self._site < half[1]:
                    onward = msgspec.structs.replace(
                        search, low=half[0], high=half[1], weight=part, hops=search.hops + 1
                    )
                    effects.append(Send(self._contact(*half), onward))
            mine = [half for half in halves if half[0] <= self._site < half[1]]
            if not mine:
                return effects
            (low, high), weight = mine[0], part
        matching = [
            own
            for own in self.stored.values()
            if own.expires_ms > now_ms
            and all(each.least <= own.attributes[each.attribute] <= each.most for each in search.ranges)
        ]
        answer = Answer(search.number, tuple(matching[: search.most]), weight, search.hops)
        return (*effects, Send(search.asker, answer))

    def _sides(self, low: int, high: int, ranges: tuple[Within, ...]) -> tuple[bool, ...]:
        """Which halves can have what is searched for: the lower, the upper, or both."""
        split = self.splits.get((low, high))
        if split is None:
            return (False,)
        least = max((r.least for r in ranges if r.attribute == split.attribute), default=float("-inf"))
        most = min((r.most for r in ranges if r.attribute == split.attribute), default=float("inf"))
        if most <= split.value:
            return (False,)
        return (True,) if least > split.value else (False, True)

    def _answered(self, answer: Answer) -> Found | None:
        pending = self._pending.get(answer.number)
        if pending is None:
            return None
        pending.weight += answer.weight
        pending.hops = max(pending.hops, answer.hops)
        for advert in answer.adverts:
            known = pending.adverts.get(advert.site)
            if known is None or known.sequence < advert.sequence:
                pending.adverts[advert.site] = advert
        if pending.weight < WHOLE:
            return None
        del self._pending[answer.number]
        return self._found(answer.number, pending, complete=True)

    @staticmethod
    def _found(number: int, pending: _Pending, complete: bool) -> Found:
        adverts = tuple(pending.adverts[site] for site in sorted(pending.adverts))
        return Found(number, adverts, pending.hops, complete)

    def _merged(self, low: int, high: int, one: Sampled, other: Sampled) -> Sampled:
        """A sample of both halves, each by its number of adverts."""
        count = one.count + other.count
        room = self._params.sample
        share = 0 if not count else round(room * one.count / count)
        points = (*_thinned(one.points, share), *_thinned(other.points, room - share))
        return Sampled(low, high, points, count)

    def _balanced(self, low: int, high: int, one: Sampled, other: Sampled, now_ms: float) -> Sequence[Effect]:
        split = self.splits.get((low, high))
        # Samples rise one level of the tree per period: until they have, they tell of the time before.
        settled_ms = (_depth_below(low, high) + 2.0) * self._params.period_ms
        if split is not None and now_ms < split.version + settled_ms:
            return ()
        middle = _middle(low, high)
        per_site = one.count / (middle - low), other.count / (high - middle)
        total = one.count + other.count
        if total < 2 or max(per_site) <= self._params.uneven * min(per_site) + 1.0:
            return ()
        points = [*one.points, *other.points]
        splits = tuple(
            _split_all(
                low, high, points, now_ms, len(self._path()) - _depth_below(low, high), self._params.split_by
            )
        )
        known = [self.splits.get((split.low, split.high)) for split in splits]
        if all(
            old is not None and (old.attribute, old.value) == (new.attribute, new.value)
            for old, new in zip(known, splits, strict=True)
        ):
            return ()  # as even as these adverts allow
        return [Send(site, Splits(splits)) for site in range(low, high)]

    def _adopt(self, splits: Sequence[Split], now_ms: float) -> Sequence[Effect]:
        """Take over newer splits, and pass on the adverts that belong elsewhere now."""
        for split in splits:
            known = self.splits.get((split.low, split.high))
            if known is None or known.version < split.version:
                self.splits[split.low, split.high] = split
        effects: list[Effect] = []
        for advert in list(self.stored.values()):
            (routed,) = self._route(Advertise(advert, 0, self._sites, 0), now_ms)
            if isinstance(routed, Send) and isinstance(routed.message, Advertise):
                del self.stored[advert.site]
                effects.append(routed)
        return effects


def is_node(low: int, high: int, sites: int) -> bool:
    """Whether the tree of so many sites has this node."""
    at = 0, sites
    while at[1] - at[0] > 1 and at != (low, high):
        at = _half(*at, upper=low >= _middle(*at))
    return at == (low, high)


def _middle(low: int, high: int) -> int:
    return (low + high) // 2


def _half(low: int, high: int, upper: bool) -> tuple[int, int]:
    middle = _middle(low, high)
    return (middle, high) if upper else (low, middle)


def _depth_below(low: int, high: int) -> int:
    return (high - low - 1).bit_length()


def _thinned(points: tuple[Point, ...], count: int) -> tuple[Point, ...]:
    if count >= len(points):
        return points
    return tuple(points[i * len(points) // count] for i in range(count))


def _split_all(
    low: int, high: int, points: list[Point], version: float, depth: int, split_by: int | None
) -> list[Split]:
    """A node of the tree and all below it, split so that every site gets its share of the points."""
    if high - low < 2 or len(points) < 2:
        return []
    attributes = len(points[0]) if split_by is None else split_by
    for turn in range(attributes):
        attribute = (depth + turn) % attributes
        values = sorted(point[attribute] for point in points)
        middle = _middle(low, high)
        rank = min(max(len(values) * (middle - low) // (high - low), 1), len(values) - 1)
        value = values[rank - 1]
        if value < values[-1]:
            below = [point for point in points if point[attribute] <= value]
            above = [point for point in points if point[attribute] > value]
            return [
                Split(low, high, attribute, value, version),
                *_split_all(low, middle, below, version, depth + 1, split_by),
                *_split_all(middle, high, above, version, depth + 1, split_by),
            ]
    return []
