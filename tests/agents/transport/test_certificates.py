"""Certificates: one authority per project, keys for their owner only, names that count."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest

from mooring.agents.transport.certificates import (
    AUTHORITY_DAYS,
    CertificateFolder,
    ends_s,
    make_certificates,
    peer_name,
    tls_context,
)
from mooring.errors import InputError
from tests.agents.scene import SITES


def test_keys_are_for_their_owner_only(certificates: CertificateFolder) -> None:
    keys = [*certificates.folder.glob("*.key")]
    assert len(keys) == len(SITES) + 3  # the authority's, the runner's and the stranger's
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
    assert not [path for path in certificates.folder.iterdir() if path.name.startswith(".")]


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    folder = CertificateFolder(tmp_path / "made")
    assert make_certificates(folder, ["one"]) == ["one"]
    before = folder.certificate("one").read_bytes(), folder.authority.read_bytes()
    assert make_certificates(folder, ["one", "a site/.. of odd name"]) == ["a site/.. of odd name"]
    assert before == (folder.certificate("one").read_bytes(), folder.authority.read_bytes())
    assert make_certificates(folder, ["one"]) == []
    tls_context(folder, "a site/.. of odd name", serving=True)
    folder.authority_key.unlink()
    with pytest.raises(InputError, match=r"authority\.key"):
        make_certificates(folder, ["two"])


def test_a_site_without_its_files_is_told_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--make-certificates"):
        tls_context(CertificateFolder(tmp_path), "athens", serving=True)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """As it lies there after a clone: whoever else has the repository is that member too."""
    folder = CertificateFolder(tmp_path)
    make_certificates(folder, ["one"])
    folder.key("one").chmod(0o644)
    with pytest.raises(InputError, match="other users can read"):
        tls_context(folder, "one", serving=False)
    folder.authority_key.chmod(0o604)
    with pytest.raises(InputError, match="other users can read"):
        make_certificates(folder, ["two"])


def test_only_a_name_of_ours_is_one() -> None:
    ours, other = ("URI", "mooring:member/x"), ("URI", "spiffe://x")
    assert peer_name({"subjectAltName": (other, ours)}) == "x"
    assert peer_name({"subjectAltName": (other,)}) is None
    assert peer_name({"subjectAltName": (ours, ours)}) is None
    assert peer_name({}) is None


def test_a_certificate_that_ends_soon_or_has_ended_is_told_of_with_what_to_do(tmp_path: Path) -> None:
    folder, day_s = CertificateFolder(tmp_path / "certificates"), 86_400.0
    make_certificates(folder, ["oslo"], days=40)
    make_certificates(folder, ["oslo", "new york"], days=900)
    made_s = time.time()
    assert ends_s(folder.certificate("oslo").read_bytes()) == pytest.approx(made_s + 40 * day_s, abs=60)
    assert ends_s(folder.authority.read_bytes()) == pytest.approx(made_s + AUTHORITY_DAYS * day_s, abs=60)
    names = ["oslo", "new york", "rome"]
    assert folder.ending(names, made_s) == []
    (said,) = folder.ending(names, made_s + 15 * day_s)
    assert said.startswith("the certificate of oslo ends in 25 days, and agents refuse expired ones: remove ")
    assert str(folder.certificate("oslo")) in said
    (said,) = folder.ending(names, made_s + 45 * day_s)
    assert "ended 5 days ago" in said
    assert len(folder.ending(names, made_s + AUTHORITY_DAYS * day_s)) == 3
    folder.certificate("oslo").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    (said,) = folder.ending(names, made_s)
    assert "cannot be read" in said
