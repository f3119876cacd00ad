"""Clocks of sites that differ by minutes change no latency and no rate, or these are unknown, and said."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.disk import DiskEntry, RealDisk
from mooring.spark.engine.meters import Batch, ChannelMeter, FragmentMeter, hop_latency_s
from mooring.spark.engine.site_clocks import SiteClocks, written_s
from mooring.spark.sites.endpoint import Endpoint
from mooring.spark.sites.sites import SiteHandle
from mooring.spark.storage.stream_logs import LogEntry

NOW_S = 1_600_000_100.0


def there(ahead_s: float) -> Any:
    """A session at a site whose clock is ahead of ours."""

    def sql(question: str) -> Any:
        assert "current_timestamp" in question
        return SimpleNamespace(collect=lambda: [[round((time.time() + ahead_s) * 1e6)]])

    return SimpleNamespace(sql=sql)


def clocks_of(folder: Path, **ahead_s: float) -> SiteClocks:
    handles = {name: SiteHandle(name, 1.0, Endpoint("sc://nowhere:1"), None) for name in ahead_s}
    clocks = SiteClocks(handles, folder)
    for name, ahead in ahead_s.items():
        clocks.ask(name, there(ahead))
    return clocks


def reports(begins_s: list[float], clock_ahead_s: float) -> list[dict[str, Any]]:
    """Of batches of a second, as a site tells them."""
    return [
        {
            "batchId": number,
            "timestamp": datetime.fromtimestamp(at_s + clock_ahead_s, UTC).isoformat().replace("+00:00", "Z"),
            "durationMs": {"triggerExecution": 1000, "addBatch": 500},
            "sources": [{"numInputRows": 10}],
        }
        for number, at_s in enumerate(begins_s)
    ]


def entry(modified_s: float) -> LogEntry:
    return LogEntry(Path("/nowhere"), 1, -1, modified_s)


@pytest.mark.parametrize("stamped_by", ["the writer", "the storage"])
@pytest.mark.parametrize(
    ("writer_s", "reader_s"), [(0.0, 0.0), (300.0, 0.0), (0.0, -3600.0), (-90.0, 7200.0)]
)
def test_latencies_and_rates_are_those_of_clocks_that_agree(
    tmp_path: Path, writer_s: float, reader_s: float, stamped_by: str
) -> None:
    clocks = clocks_of(tmp_path, writer=writer_s, reader=reader_s)
    writer, reader = FragmentMeter(), FragmentMeter()
    begins_s = [NOW_S - 20 + 5 * k for k in range(4)]
    writer.take(reports(begins_s, writer_s), clocks.ahead_s("writer"))
    reader.take(reports([at_s + 3 for at_s in begins_s], reader_s), clocks.ahead_s("reader"))
    channel = ChannelMeter(end=0)
    stamp_s = writer_s if stamped_by == "the writer" else 0.0
    files = [entry(at_s + 0.8 + stamp_s) for at_s in begins_s]
    channel.take(files, lambda file: written_s(file.modified_s, clocks.of_files(), writer.batches, NOW_S))
    assert channel.untimed == 0
    times_s = [at_s for at_s, _, _ in channel.appended]
    assert hop_latency_s(reader, times_s, 5.0) == pytest.approx(3.2, abs=0.2)
    assert reader.rows_per_s(NOW_S, 20.0)[0] == pytest.approx(2.0, abs=0.4)
    assert channel.rates_per_s(NOW_S, 20.0, NOW_S - 20)[1] == pytest.approx(0.2)


@pytest.mark.parametrize("off_s", [-3600.0, 3600.0])
def test_a_file_whose_time_no_clock_explains_has_none(tmp_path: Path, off_s: float) -> None:
    clocks = clocks_of(tmp_path, writer=0.0)
    batches = [Batch(0, NOW_S - 10, NOW_S - 9, 1, 1, 0, 0.5)]
    channel = ChannelMeter(end=0)

    def when(file: LogEntry) -> float | None:
        return written_s(file.modified_s, clocks.of_files(), batches, NOW_S)

    channel.take([entry(NOW_S - 9.5 + off_s)], when, NOW_S)
    assert channel.untimed == 1
    assert channel.rates_per_s(NOW_S, 10.0, 0.0)[1] == pytest.approx(0.1), "it was appended all the same"
    channel.take([entry(NOW_S - 9.5)], when, NOW_S)
    assert channel.untimed == 0


class Server(RealDisk):
    """Stamps files by its own clock."""

    def look(self, path: Path, *, follow: bool = True) -> DiskEntry | None:
        found = super().look(path, follow=follow)
        return found and replace(found, modified_s=found.modified_s + 90)


def test_the_clock_of_a_file_server_is_told_by_a_file(tmp_path: Path) -> None:
    assert clocks_of(tmp_path).of_files() == [0.0]
    ahead_s = SiteClocks({}, tmp_path, Server()).of_files()[0]
    assert not list(tmp_path.iterdir())
    assert ahead_s == pytest.approx(90, abs=1)
    written = written_s(NOW_S + 90, [ahead_s], cast(list[Batch], []), NOW_S + 1)
    assert written == pytest.approx(NOW_S, abs=1)


def test_an_embedded_site_is_not_asked(tmp_path: Path) -> None:
    handle = SiteHandle("here", 1.0, Endpoint("sc://nowhere:1"), cast(Any, SimpleNamespace()))
    clocks = SiteClocks({"here": handle}, tmp_path)
    clocks.ask("here", cast(Any, None))
    assert clocks.ahead_s("here") == 0.0


class SetClock:
    """Wall and monotonic clock; `ahead_s` may be set."""

    def __init__(self) -> None:
        self.passed_s, self.ahead_s = 0.0, NOW_S

    def time(self) -> float:
        return self.passed_s + self.ahead_s

    def monotonic(self) -> float:
        return self.passed_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    clock = SetClock()
    monkeypatch.setattr("mooring.spark.engine.site_clocks.time", clock)
    return clock


def embedded(folder: Path) -> SiteClocks:
    handle = SiteHandle("here", 1.0, Endpoint("sc://nowhere:1"), cast(Any, SimpleNamespace()))
    return SiteClocks({"here": handle}, folder)


def test_a_clock_that_was_set_back_concerns_the_queries_that_saw_it_before(
    tmp_path: Path, clock: SetClock
) -> None:
    clocks = embedded(tmp_path)
    for passed_s, ahead_s in ((1.0, 0.0), (2.0, 2_592_000.0), (3.0, 2_592_000.0), (4.0, -5.0)):
        clock.passed_s, clock.ahead_s = passed_s, NOW_S + ahead_s
        clocks.look()
        if passed_s < 4.0:
            assert clocks.set_back_s("here", 0.5) == 0.0, "one that is ahead keeps nobody waiting"
    assert clocks.set_back_s("here", 0.5) == pytest.approx(2_592_005.0)
    assert clocks.set_back_s("here", 4.5) == 0.0, "started since"
    clock.passed_s, clock.ahead_s = 5.0, NOW_S - 10.0
    clocks.look()
    assert clocks.set_back_s("here", 4.5) == 0.0, "it waits for a few seconds at most"


def test_a_clock_that_is_ahead_between_two_questions_is_told_by_a_batch(
    tmp_path: Path, clock: SetClock
) -> None:
    handle = SiteHandle("there", 1.0, Endpoint("sc://nowhere:1"), None)
    clocks = SiteClocks({"there": handle}, tmp_path)

    def ask() -> None:
        answer = SimpleNamespace(collect=lambda: [[round(clock.time() * 1e6)]])
        clocks.ask("there", cast(Any, SimpleNamespace(sql=lambda question: answer)))

    clock.passed_s = 60.0
    ask()
    clocks.reported("there", clock.time() + 3600.0, since_s=50.0)
    clock.passed_s = 120.0
    ask()
    assert clocks.set_back_s("there", 50.0) == pytest.approx(3600.0)
    clocks.reported("there", clock.time() + 3600.0, since_s=50.0)  # of before, and only told now
    clock.passed_s = 180.0
    ask()
    assert clocks.set_back_s("there", 130.0) == 0.0, "nothing is said of a query that was started again"
