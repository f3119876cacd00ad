"""The members of a project's agents, read from `mooring.yml` alone: an agent loads no Spark.

`agents:` there says where agents listen that are not on one machine with everybody else, and the runner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mooring.agents.transport.certificates import CertificateFolder
from mooring.agents.transport.members import RUNNER, AgentAddress, Members
from mooring.errors import InputError
from mooring.model.problem.files import load_data
from mooring.model.problem.reading.fields import mapping, refuse_reference, text

AGENTS_FOLDER_NAME = "agents"
SPEC_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
SETTINGS_NAMES = ("mooring.yml", "mooring.yaml", "mooring.json")


@dataclass(frozen=True)
class ProjectMembers:
    members: Members
    certificates: CertificateFolder


def agents_of(
    work_folder: Path, sites: tuple[str, ...], stated: Mapping[str, AgentAddress]
) -> ProjectMembers:
    folder = work_folder / AGENTS_FOLDER_NAME
    return ProjectMembers(Members(folder, sites, stated), CertificateFolder(folder / "certificates"))


def read_addresses(section: object, sites: tuple[str, ...]) -> dict[str, AgentAddress]:
    """The section `agents` of a `mooring.yml`."""
    found = {}
    for name, raw in mapping(section, "agents", "a mapping of sites to HOST:PORT").items():
        if name not in (*sites, RUNNER):
            refuse_reference(str(name), (*sites, RUNNER), "agents", "a site, or runner")
        found[name] = AgentAddress.read(text(raw, f"agents.{name}"), f"agents.{name}")
    return found


def read_project_members(project: Path) -> ProjectMembers:
    """`project`: a folder with a `mooring.yml`, or the pipeline spec beside it."""
    if not project.exists():
        raise InputError("no such folder", file=project, remedy="give the project's folder")
    folder, spec = (project.parent, project) if project.is_file() else (project, None)
    own = None if spec is None or spec.name in SPEC_NAMES else spec.stem
    names = [f"{own}.{name}" for name in SETTINGS_NAMES if own] + list(SETTINGS_NAMES)
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is None:
        raise InputError("found no mooring.yml", file=folder, remedy="give the project's folder")
    data = load_data(found)
    try:
        sections = mapping(data, "", "a mapping with at least sites")
        sites = tuple(map(str, mapping(sections.get("sites") or {}, "sites")))
        if not sites:
            raise InputError("found no sites, expected at least one entry", field="sites")
        stated = read_addresses(sections.get("agents") or {}, sites)
        return agents_of(folder.resolve() / (f".mooring-{own}" if own else ".mooring"), sites, stated)
    except InputError as error:
        error.file = error.file or str(found)
        raise
