"""The model of addresses and sizes has the traits that it promises."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from mooring.errors import InputError
from mooring.traces.packets import PacketParams, draw_packets
from mooring.traces.read import arrival_instants
from mooring.traces.sessions import SessionParams, draw_sessions

DIGEST = """
import hashlib, numpy as np
from mooring.traces.packets import draw_packets
packets = draw_packets(np.arange(0, 300, 0.003), seed=5)
parts = (packets.source, packets.destination, packets.size_bytes)
print(hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest())
"""


def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    packets = draw_packets(np.arange(0, 300, 0.003), seed=5)
    parts = (packets.source, packets.destination, packets.size_bytes)
    here = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
    there = subprocess.run([sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here
    assert not np.array_equal(draw_packets(packets.instant_s, seed=6).source, packets.source)


def test_popularity_is_heavy_tailed() -> None:
    """A tenth of the addresses sends most packets, yet most addresses send some."""
    packets = draw_packets(np.linspace(0, 3600, 1_000_000), seed=1)
    per_source = np.sort(np.bincount(packets.source, minlength=1000))[::-1]
    assert per_source[:100].sum() > 0.5 * per_source.sum()
    assert (per_source > 0).sum() > 900


def test_session_numbers_keep_their_mean_and_remember() -> None:
    """M/G/infinity: the mean holds from the first slot on, and the memory outlives most sessions."""
    at_start, in_all, kept = [], [], []
    for seed in range(40):
        sessions = draw_sessions(2000.0, np.random.default_rng(seed), SessionParams())
        number = np.diff(sessions.first_of_slot)
        at_start.append(number[0])
        in_all.append(number.mean())
        kept.append(np.corrcoef(number[:-100], number[100:])[0, 1])
    # A session counts in every slot it touches: about one second beyond its mean of 9.9.
    assert np.mean(in_all) == pytest.approx(40 * (9.85 + 1) / 9.85, rel=0.06)
    assert np.mean(at_start) == pytest.approx(np.mean(in_all), rel=0.1)
    assert np.mean(kept) > 0.05


def test_packets_of_one_train_share_their_addresses() -> None:
    instants_s = np.linspace(0, 600, 100_000)
    together = draw_packets(instants_s, 3, PacketParams(train=10.0))
    alone = draw_packets(instants_s, 3, PacketParams(train=1.0))
    assert (np.diff(together.source) == 0).mean() > 0.9
    assert (np.diff(alone.source) == 0).mean() < 0.5


def test_sizes_follow_the_mixture() -> None:
    sizes = draw_packets(np.linspace(0, 600, 200_000), seed=2).size_bytes
    assert sizes.min() == 64
    assert sizes.max() == 1518
    assert (sizes == 64).mean() == pytest.approx(0.4, abs=0.01)
    assert (sizes == 1518).mean() == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_shortest_traces_are_packets_too(count: int) -> None:
    packets = draw_packets(np.zeros(count), seed=0)
    assert packets.source.size == packets.size_bytes.size == count


def test_a_span_of_days_widens_the_slots_instead_of_filling_the_memory() -> None:
    sessions = draw_sessions(3 * 86_400.0, np.random.default_rng(0), SessionParams(in_progress=5))
    assert sessions.first_of_slot.size <= 20_002


def test_slots_without_sessions_get_one() -> None:
    quiet = PacketParams(sessions=SessionParams(in_progress=0.01))
    packets = draw_packets(np.linspace(0, 100, 1000), 0, quiet)
    assert packets.source.size == 1000


@pytest.mark.parametrize("instants_s", [[1.0, 0.5], [0.0, np.nan], [[0.0, 1.0]]])
def test_instants_out_of_order_or_without_meaning_are_refused(instants_s: list[float]) -> None:
    with pytest.raises(InputError, match="instants"):
        draw_packets(np.array(instants_s), seed=0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: PacketParams(train=0.5),
        lambda: PacketParams(small_share=0.8, large_share=0.3),
        lambda: PacketParams(smallest_bytes=0),
        lambda: SessionParams(tail=1.0),
        lambda: SessionParams(addresses=0),
        lambda: SessionParams(popularity=-1),
    ],
)
def test_parameters_without_meaning_are_refused_when_built(wrong: object) -> None:
    with pytest.raises(InputError):
        wrong()  # type: ignore[operator]


def test_the_instants_are_kept_as_they_are() -> None:
    instants_s = arrival_instants("bc-paug89-extract")
    assert np.array_equal(draw_packets(instants_s, 0).instant_s, instants_s)
