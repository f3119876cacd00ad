"""Clients that do not wait between their tries."""

from __future__ import annotations

import threading
from collections import defaultdict

import pytest

WaitsMs = dict[threading.Thread, list[float]]
"""By the thread that would wait: those of earlier tests may still be giving up."""


@pytest.fixture
def waits_ms(monkeypatch: pytest.MonkeyPatch) -> WaitsMs:
    """What clients would wait after failed tries; they need not."""
    from pyspark.sql.connect.client.retries import RetryPolicyState

    waits_ms: WaitsMs = defaultdict(list)
    ask = RetryPolicyState.next_attempt

    def asked(state: RetryPolicyState, failure: BaseException | None = None) -> float | None:
        wait_ms: float | None = ask(state, failure)
        if wait_ms is None:
            return None
        waits_ms[threading.current_thread()].append(wait_ms)
        return 0.0

    monkeypatch.setattr(RetryPolicyState, "next_attempt", asked)
    return waits_ms
