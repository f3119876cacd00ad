"""A site that does not answer costs its caller no more than the patience asked for."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.sites.site_calls import Lane, SiteSilentError


def test_an_answer_or_a_failure_comes_through() -> None:
    lane = Lane("here")
    assert lane.ask(lambda: 7, 5.0) == 7
    with pytest.raises(ZeroDivisionError):
        lane.ask(lambda: 1 // 0, 5.0)
    with pytest.raises(TimeoutError):
        lane.ask(_raise_timeout, 5.0)
    assert lane.ask(lambda: 8, 5.0) == 8


def test_a_silent_site_is_not_asked_again_until_it_has_answered() -> None:
    lane, thaw, asked = Lane("here"), threading.Event(), []
    with pytest.raises(SiteSilentError, match="within"):
        lane.ask(lambda: thaw.wait(60), 0.05)
    assert lane.is_silent()
    with pytest.raises(SiteSilentError, match="earlier"):
        lane.ask(lambda: asked.append(1), 60.0)
    thaw.set()
    while lane.is_silent():
        threading.Event().wait(0.01)
    assert lane.ask(lambda: len(asked), 5.0) == 0


def _raise_timeout() -> None:
    raise TimeoutError("somewhere inside")
