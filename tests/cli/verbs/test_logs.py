"""`mooring logs` shows the ends of the logs that there are, and no token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.runs.run_logs import Followed, find_logs

if TYPE_CHECKING:
    from tests.cli.conftest import Mooring


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A site's folder is named after it with a mark where its name is no file name."""
    work = tmp_path / ".mooring"
    (tmp_path / "spark-pipeline.yml").write_text("name: clicks\nlibraries: []\nstorage: storage\n")
    (tmp_path / "mooring.yml").write_text("sites: {oslo: {capacity: 1}, 'São': {capacity: 1}}\n")
    for place in ("sites/oslo", "sites/S_o-a505db", "agents/S%C3%A3o"):
        (work / place).mkdir(parents=True)
    (work / "problem.json").write_text(json.dumps({"sites": {"oslo": {}, "São": {}}}))
    (work / "run.log").write_text("one\ntwo\npage: http://127.0.0.1:8080/#token=secret\n")
    (work / "sites" / "oslo" / "server.log").write_text("oslo is up\n")
    (work / "sites" / "S_o-a505db" / "server.log").write_text("São is up\n")
    (work / "agents" / "S%C3%A3o" / "agent.log").write_text("listens\n")
    return tmp_path


def test_the_last_lines_of_every_log_are_shown_without_the_token(mooring: Mooring, project: Path) -> None:
    shown = mooring("logs", project, "--lines", "2")
    assert shown.code == 0
    assert "two\npage: http://127.0.0.1:8080/#token=...\n" in shown.out
    assert "one" not in shown.out
    document = mooring("logs", project, "--json").document
    assert [each["name"] for each in document["logs"]] == ["run", "site São", "site oslo", "agent São"]
    assert document["logs"][2]["lines"] == ["oslo is up"]


def test_one_site_has_its_own_logs_and_one_without_is_named(mooring: Mooring, project: Path) -> None:
    named = mooring("logs", project, "--site", "São", "--json").document
    assert [each["name"] for each in named["logs"]] == ["site São", "agent São"]
    refused = mooring("logs", project, "--site", "rome")
    assert refused.code == 2
    assert "'rome'" in refused.err
    assert "oslo" in refused.err


def test_following_ends_where_nothing_runs(mooring: Mooring, project: Path) -> None:
    shown = mooring("logs", project, "--follow")
    assert (shown.code, "oslo is up" in shown.out) == (0, True)
    assert "does not run" in shown.err
    assert mooring("logs", project, "--follow", "--json").code == 2


def test_what_is_followed_goes_on_after_it_was_emptied_or_replaced(project: Path) -> None:
    log = next(log for log in find_logs(project / ".mooring") if log.name == "site oslo")
    followed = Followed(log)
    assert list(followed.lines()) == []
    with log.file.open("a") as more:
        more.write("half a ")
        more.flush()
        assert list(followed.lines()) == []
        more.write("line\n")
    assert list(followed.lines()) == ["half a line"]
    log.file.write_text("anew\n")
    assert list(followed.lines()) == ["anew"]
    log.file.rename(log.file.with_suffix(".1"))
    assert list(followed.lines()) == []
    log.file.write_text("the next start, which says more\n")
    assert list(followed.lines()) == ["the next start, which says more"]
