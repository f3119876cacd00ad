"""A site that does not answer costs its caller no more than the patience asked for."""

from __future__ import annotations

import contextlib
import threading

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import EngineError, SiteBusyError, SiteLostError
from mooring.spark.sites.site_calls import Lane, SiteCalls, SiteSilentError


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


def test_an_answer_that_comes_too_late_is_handed_on_to_be_undone() -> None:
    lane, thaw = Lane("here"), threading.Event()
    undone: list[str] = []

    def answer() -> str:
        thaw.wait(60)
        return "a session"

    with pytest.raises(SiteSilentError):
        lane.ask(answer, 0.05, late=undone.append)
    thaw.set()
    while lane.is_silent():
        threading.Event().wait(0.01)
    assert lane.ask(lambda: list(undone), 5.0) == ["a session"]
    assert lane.ask(answer, 60.0, late=undone.append) == "a session"
    assert undone == ["a session"]


def test_a_failure_that_comes_too_late_concerns_nobody() -> None:
    lane, thaw = Lane("here"), threading.Event()
    undone: list[str] = []

    def fail() -> str:
        thaw.wait(60)
        raise OSError

    with pytest.raises(SiteSilentError):
        lane.ask(fail, 0.05, late=undone.append)
    thaw.set()
    while lane.is_silent():
        threading.Event().wait(0.01)
    assert lane.ask(lambda: list(undone), 5.0) == []


def test_a_long_call_of_one_kind_lets_no_site_be_silent_for_another() -> None:
    moves, looks, thaw = SiteCalls(0.05), SiteCalls(0.05), threading.Event()
    with pytest.raises(SiteLostError, match="does not answer"):
        moves.ask("here", lambda: thaw.wait(60))
    assert looks.ask("here", lambda: 7, 60.0) == 7
    thaw.set()


def test_a_site_that_is_back_is_asked_whatever_its_last_server_left_unanswered() -> None:
    calls, thaw = SiteCalls(0.05), threading.Event()
    with pytest.raises(SiteLostError):
        calls.ask("here", lambda: thaw.wait(60))
    calls.renew("here")
    assert calls.ask("here", lambda: 7, 60.0) == 7
    thaw.set()


def test_calls_that_are_closed_ask_nothing_more() -> None:
    calls = SiteCalls(5.0)
    assert calls.ask("here", lambda: 7) == 7
    calls.close()
    with pytest.raises(EngineError, match="the run is over"):
        calls.ask("here", lambda: 8)


def _raise_timeout() -> None:
    raise TimeoutError("somewhere inside")


def test_a_site_that_answers_other_requests_is_slow_and_not_lost() -> None:
    thaw, dead = threading.Event(), threading.Event()

    def pulse(site: str) -> None:
        if dead.is_set():
            raise OSError(f"{site} has ended")

    calls = SiteCalls(0.2, pulse)
    with pytest.raises(SiteBusyError, match="answers slowly"):
        calls.ask("here", lambda: thaw.wait(60))
    dead.set()
    with pytest.raises(SiteLostError, match="does not answer"):
        calls.ask("here", lambda: 7)
    thaw.set()


def test_a_request_that_waits_for_too_long_loses_the_site_whatever_else_it_answers() -> None:
    calls, thaw = SiteCalls(0.02, lambda site: None), threading.Event()
    with pytest.raises(SiteBusyError):
        calls.ask("here", lambda: thaw.wait(60))

    def ask_until_lost() -> None:
        while True:
            with contextlib.suppress(SiteBusyError):
                calls.ask("here", lambda: 7)

    with pytest.raises(SiteLostError, match="does not answer"):
        ask_until_lost()
    thaw.set()
