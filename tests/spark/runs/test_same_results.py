"""What rows are computed with is written down, compared, and adopted where an earlier Mooring wrote none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import EngineError, InputErrors, MooringError
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs import same_results as module
from mooring.spark.runs.same_results import same_results
from mooring.spark.sites.endpoint import Endpoint
from mooring.spark.sites.sites import SiteHandle
from mooring.spark.storage.result_record import RESULTS_FILE_NAME, read_results

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

ZONE = "spark.sql.session.timeZone"


class Owned:
    """Files replaced in place."""

    def replace(self, file: Path, content: bytes, **_: Any) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def endpoints(*names: str) -> list[SiteHandle]:
    return [SiteHandle(name, 1.0, Endpoint("sc://localhost:1"), None) for name in names]


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = {"a": "4.3.0", "b": "4.3.0"}
    monkeypatch.setattr(module, "version_at", lambda site: found[site.name])
    return found


def test_storage_without_a_record_is_adopted_with_a_sentence_and_then_held_to_it(
    make_project: ProjectMaker, versions: dict[str, str]
) -> None:
    folder, owned = make_project(), Owned()
    sites = endpoints("a", "b")
    first = same_results(load_project(folder), sites, used=True)
    assert "no record of the settings" in first.notes[0]
    first.settle(owned, accept_edits=False)  # type: ignore[arg-type]
    assert same_results(load_project(folder), sites, used=True).notes == []
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text() + f"configuration: {{{ZONE}: Asia/Tokyo}}\n")
    edited = same_results(load_project(folder), sites, used=True)
    with pytest.raises(MooringError, match=r"'UTC'.*'Asia/Tokyo'") as refused:
        edited.settle(owned, accept_edits=False)  # type: ignore[arg-type]
    one = refused.value.errors[0] if isinstance(refused.value, InputErrors) else refused.value
    assert getattr(one, "field", "") == f"configuration.{ZONE}"
    edited.settle(owned, accept_edits=True)  # type: ignore[arg-type]
    stored = load_project(folder).settings.storage
    recorded = read_results(stored)
    assert recorded is not None
    assert recorded.settings[ZONE] == "Asia/Tokyo"
    (stored / RESULTS_FILE_NAME).write_text("{}")
    with pytest.raises(EngineError, match="cannot be read"):
        read_results(stored)


def test_sites_of_two_versions_of_spark_are_refused_by_name_and_an_upgrade_of_all_is_said(
    make_project: ProjectMaker, versions: dict[str, str]
) -> None:
    project, owned = load_project(make_project()), Owned()
    same_results(project, endpoints("a", "b"), used=False).settle(
        owned,  # type: ignore[arg-type]
        accept_edits=False,
    )
    versions["b"] = "4.4.0"
    with pytest.raises(EngineError, match=r"4\.3\.0 at a, 4\.4\.0 at b"):
        same_results(project, endpoints("a", "b"), used=True)
    versions["a"] = "4.4.0"
    (note,) = same_results(project, endpoints("a", "b"), used=True).notes
    assert "Spark 4.3.0; the sites now run 4.4.0" in note
