"""Addresses are taken apart as Spark's client would, and a secret in one is shown by nobody."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.pretty import pretty_repr

from mooring.errors import InputError
from mooring.model.problem.reading.address import read_address
from mooring.model.problem.site import Connection, Site, check_connection

SECRET = "hunter2hunter2"

WRONG = [
    f"SC://oslo:15002/;token={SECRET}",
    f"http://oslo/;token={SECRET}",
    f"oslo:15002/;token={SECRET}",
    f"sc://user:{SECRET}@oslo:15002",
    f"sc://{SECRET}@oslo",
    f"sc://oslo:{SECRET}",
    f"sc://oslo:99999/;token={SECRET}",
    f"sc://oslo;token={SECRET}",
    f"sc://oslo?token={SECRET}",
    f"sc://oslo/{SECRET}",
    f"sc://oslo/?token={SECRET}",
    f"sc://oslo/;{SECRET}",
    f"sc://oslo/;token:{SECRET}",
    f"sc://oslo/;token={SECRET}%0a",
    f"sc://oslo/;token={SECRET}ü",
    f"sc://oslo/;token={SECRET};token={SECRET}",
    f"sc://oslo/;{SECRET}%={SECRET}",
    f"sc://oslo/;token={SECRET};session_id={SECRET}",
    f"sc://oslo/;use_ssl={SECRET}",
    f"sc://oslo/;grpc_keepalive_time_ms={SECRET}",
    f"sc://:15002/;token={SECRET}",
    f"sc://os lo/;token={SECRET}",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said_and_what_was_found_is_not(text: str) -> None:
    with pytest.raises(InputError) as refused:
        read_address(text, "sites.oslo.connect")
    said = f"{refused.value} {refused.value!r} {refused.value.as_json()}"
    assert SECRET not in said
    assert "sites.oslo.connect" in said


@given(st.text(alphabet="sc:/;=@?#%tokenabc123. []\n"))
def test_any_text_is_an_address_or_an_input_error(text: str) -> None:
    try:
        address = read_address(f"sc://{text}", "connect")
    except InputError:
        return
    assert address.host
    assert 0 < address.port < 65536


@pytest.mark.parametrize("name", ["token", "Token", "x-api-key", "authorization", "never-heard-of"])
@pytest.mark.parametrize(
    "value", [SECRET, "".join(f"%{ord(letter):02x}" for letter in SECRET), f"{SECRET}=="]
)
def test_no_parameter_is_shown_whatever_its_name_and_however_it_is_written(name: str, value: str) -> None:
    connection = Connection(url=f"sc://oslo:1/;use_ssl=true;{name}={value}")
    address = connection.address
    site = Site(name="oslo", capacity=1.0, connect=connection)
    texts = [form(each) for form in (str, repr, pretty_repr) for each in (address, connection, site)]
    for shown in texts:
        assert SECRET not in shown
        assert value not in shown
    assert (address.token or next(iter(address.headers.values()))).startswith(SECRET)


def test_parts_are_what_sparks_client_makes_of_them() -> None:
    address = read_address("sc://oslo/;user_id=me;use_ssl=TRUE;x-api-key=a%3Bb;token=c", "connect")
    assert (address.host, address.port, address.use_ssl) == ("oslo", 15002, True)
    assert (address.token, address.headers) == ("c", {"x-api-key": "a;b"})
    assert address.options == {"user_id": "me", "use_ssl": "true"}
    assert read_address("sc://[::1]:7", "connect").host == "[::1]"


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        *((host, True) for host in ("localhost", "127.0.0.1", "127.9.9.9", "[::1]")),
        *((host, False) for host in ("localhost.evil.org", "128.0.0.1", "oslo", "[::2]")),
    ],
)
def test_only_this_machine_is_the_loopback(host: str, is_loopback: bool) -> None:
    assert read_address(f"sc://{host}", "connect").is_loopback == is_loopback


@pytest.mark.parametrize(
    ("fields", "private"),
    [
        ({"url": "sc://oslo"}, False),
        ({"url": "sc://oslo/;token=a"}, True),
        ({"url": "sc://localhost/;token=a"}, False),
        ({"url": "sc://localhost/;token=a;use_ssl=true"}, True),
        ({"url": "sc://127.0.0.1/;token=a"}, True),
        ({"url": "sc://127.0.0.1/;token=a;use_ssl=false"}, False),
        ({"url": "sc://127.0.0.1/;x-api-key=a"}, False),
        ({"url": "sc://oslo", "token_env": "T"}, True),
        ({"url": "sc://oslo", "token_file": "t"}, True),
        ({"url": "sc://oslo", "ca_file": "ca.pem"}, True),
        ({"url": "sc://localhost", "ca_file": "ca.pem", "token_env": "T"}, True),
        ({"url": "sc://oslo/;token=a", "plain_text": True}, False),
        ({"url": "sc://oslo/;x-api-key=a", "plain_text": True}, False),
        ({"url": "sc://oslo/;x-api-key=a;use_ssl=true"}, True),
    ],
)
def test_a_token_asks_for_tls_as_in_spark(fields: dict[str, str], private: bool) -> None:
    connection = check_connection(Connection(**fields), "connect")  # type: ignore[arg-type]
    assert connection.is_private == private


@pytest.mark.parametrize(
    "fields",
    [
        {"url": f"sc://oslo/;token={SECRET};use_ssl=false"},
        {"url": f"sc://oslo/;x-api-key={SECRET}"},
        {"url": f"sc://oslo/;authorization={SECRET};use_ssl=false"},
        {"url": "sc://oslo/;use_ssl=false", "token_env": SECRET},
    ],
)
def test_a_secret_in_plain_text_to_another_machine_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(InputError, match="plain text") as refused:
        check_connection(Connection(**fields), "connect")  # type: ignore[arg-type]
    assert "plain_text: true" in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "sc://oslo/;token=a", "token_env": "T"},
        {"url": "sc://oslo", "token_env": "T", "token_file": "t"},
        {"url": "sc://oslo", "ca_file": "ca.pem", "plain_text": True},
        {"url": "sc://oslo/;use_ssl=false", "ca_file": "ca.pem"},
        {"url": "sc://oslo/;use_ssl=true", "plain_text": True},
    ],
)
def test_what_contradicts_itself_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(InputError, match="found"):
        check_connection(Connection(**fields), "connect")  # type: ignore[arg-type]
