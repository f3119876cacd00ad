"""By which names a service may be called."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.service.web.guard import Rules
from mooring.service.web.listening_place import ListeningPlace
from mooring.service.web.server import called, project_token, rules_for

RULES = Rules("t" * 40, ["desk.example", "localhost", "*.ours.example"], reading_is_open=False)


@pytest.mark.parametrize(
    ("host", "at", "status"),
    [
        ("desk.example:8443", "192.0.2.7", None),
        ("192.0.2.7:8443", "192.0.2.7", None),
        ("[2001:db8::7]:8443", "2001:db8::7", None),
        ("desk.ours.example", "192.0.2.7", None),
        ("ours.example", "192.0.2.7", 421),
        ("a.desk.ours.example", "192.0.2.7", 421),
        ("192.0.2.8:8443", "192.0.2.7", 421),
        ("evil.example", "192.0.2.7", 421),
        ("", "", 421),
        ("[", "192.0.2.7", 421),
    ],
)
def test_its_names_and_the_address_it_was_reached_at(host: str, at: str, status: int | None) -> None:
    """Another site's name that was made to lead here is not among them."""
    headers = {"host": host, "authorization": f"Bearer {RULES.token}"}
    refusal = RULES.refuse("GET", "/api/v1/status", headers, at)
    assert (refusal and refusal.status) == status


@pytest.mark.parametrize("names", [(), ("*.ours.example", "localhost", "desk.ours.example")])
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.1", "::1"])
def test_the_address_that_is_shown_is_one_it_answers_to(host: str, names: tuple[str, ...]) -> None:
    address = ListeningPlace(host, 8443)
    shown = called(address, names)
    rules = rules_for(address, "t" * 40, names)
    headers = {"host": f"{shown}:8443", "authorization": f"Bearer {rules.token}"}
    assert rules.refuse("GET", "/api/v1/status", headers) is None
    assert not address.is_everywhere or shown not in ("0.0.0.0", "[::]")


def test_a_token_that_others_may_have_read_is_not_taken(tmp_path: Path) -> None:
    """As one that came with a repository, or a link to some other file."""
    first = project_token(tmp_path)
    assert project_token(tmp_path) == first
    file = tmp_path / "token"
    file.chmod(0o644)
    second = project_token(tmp_path)
    assert second != first
    assert file.stat().st_mode & 0o777 == 0o600
    other = tmp_path / "other"
    other.write_text("x" * 40)
    other.chmod(0o600)
    file.unlink()
    file.symlink_to(other)
    assert project_token(tmp_path) not in (first, second, "x" * 40)
    assert other.read_text() == "x" * 40
