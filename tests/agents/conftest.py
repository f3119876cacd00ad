"""Members of a project and their certificates, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agents.transport.certificates import CertificateFolder, make_certificates
from mooring.agents.transport.members import RUNNER, Members
from tests.agents.scene import SITES


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFolder:
    folder = CertificateFolder(tmp_path_factory.mktemp("certificates") / "project")
    make_certificates(folder, [*SITES, RUNNER, "stranger"])
    return folder


@pytest.fixture(scope="session")
def foreign_certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFolder:
    """Of another project, for a member of the same name."""
    folder = CertificateFolder(tmp_path_factory.mktemp("certificates") / "another")
    make_certificates(folder, ["berlin"])
    return folder


@pytest.fixture
def members(tmp_path: Path) -> Members:
    return Members(tmp_path / "agents", SITES)
