"""By which names a service may be called."""

from __future__ import annotations

import pytest

from mooring.service.web.guard import Rules

RULES = Rules("t" * 40, ["desk.example", "localhost"], reading_is_open=False)


@pytest.mark.parametrize(
    ("host", "at", "status"),
    [
        ("desk.example:8443", "192.0.2.7", None),
        ("192.0.2.7:8443", "192.0.2.7", None),
        ("[2001:db8::7]:8443", "2001:db8::7", None),
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
