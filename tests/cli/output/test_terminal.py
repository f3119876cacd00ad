"""Long work says how far it is, in a terminal and in a log; lines to be copied stay whole."""

from __future__ import annotations

from io import StringIO
from itertools import count

import pytest

from mooring.cli.output import terminal as module
from mooring.cli.output.terminal import PIPE_WIDTH, Terminal


def test_a_log_gets_a_line_every_twenty_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count(step=8)
    monkeypatch.setattr(module, "monotonic", lambda: float(next(ticks)))
    err = StringIO()
    with Terminal.of(StringIO(), err, as_json=True).progress("profiling clicks") as report:
        for step in range(6):
            report(step / 10, "pages, pass 1" if step == 3 else "")
    assert err.getvalue().splitlines() == [
        "profiling clicks: 20% after 24 s",
        "pages, pass 1: 50% after 48 s",
    ]


def test_a_line_to_be_copied_is_neither_cut_off_nor_folded() -> None:
    out, line = StringIO(), "x = " + "[1] " * PIPE_WIDTH
    Terminal.of(out, StringIO(), as_json=False).print_whole(line)
    assert out.getvalue() == f"{line}\n"
