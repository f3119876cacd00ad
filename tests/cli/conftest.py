"""Running the real command line inside the test process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mooring.cli.main import main

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Mooring = Callable[..., Result]


@pytest.fixture
def mooring(capsys: pytest.CaptureFixture[str]) -> Mooring:
    def run(*words: object) -> Result:
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def monitoring() -> Path:
    return EXAMPLES / "network_monitoring.yaml"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Two sites, two streams, four operators: small enough for `optimal`."""
    path = tmp_path / "small.yaml"
    path.write_text(
        """
        sites: {a: {capacity: 1}, b: {capacity: 1}}
        streams: {x: {rate: 1000}, y: {rate: 2000}, idle: {rate: 5}}
        operators:
          x1: {inputs: [x], cost_us: 140}
          x2: {inputs: [x], cost_us: 60}
          y1: {inputs: [y], cost_us: 90}
          y2: {inputs: [y], cost_us: 70}
        """
    )
    return path
