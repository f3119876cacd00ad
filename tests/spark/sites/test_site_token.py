"""Tokens come from where the connection says, from files of one's own only, and nothing shows them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.model.problem.site import Connection
from mooring.spark.sites.site_token import EVERYWHERE, read_token

SECRET = "hunter2hunter2"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "token"
    made.touch(mode=0o600)
    made.write_text(f"{SECRET}\n")
    return made


def test_a_token_comes_from_the_address_the_environment_or_a_file(file: Path) -> None:
    around = {"OSLO": SECRET, EVERYWHERE: "for all"}
    assert read_token(Connection(url=f"sc://oslo/;token={SECRET}"), around) == SECRET
    assert read_token(Connection(url="sc://oslo", token_env="OSLO"), around) == SECRET
    assert read_token(Connection(url="sc://oslo", token_file=str(file)), around) == SECRET
    assert read_token(Connection(url="sc://oslo"), {}) is None


def test_a_site_without_a_token_of_its_own_is_sent_sparks() -> None:
    assert read_token(Connection(url="sc://oslo"), {EVERYWHERE: SECRET}) == SECRET


@pytest.mark.parametrize(
    "around", [{}, {"OSLO": ""}, {"OSLO": f"{SECRET} twice"}, {"OSLO": f"{SECRET}\n{SECRET}"}]
)
def test_a_variable_that_holds_no_token_is_named_and_not_shown(around: dict[str, str]) -> None:
    with pytest.raises(InputError, match="variable OSLO") as refused:
        read_token(Connection(url="sc://oslo", token_env="OSLO"), around)
    assert SECRET not in str(refused.value)
    assert refused.value.field == "connect.token_env"


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o666, 0o602, 0o601])
def test_a_file_that_others_can_read_or_change_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(InputError, match="other users") as refused:
        read_token(Connection(url="sc://oslo", token_file=str(file)))
    assert "chmod 600" in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_group_may_read_a_token(file: Path) -> None:
    file.chmod(0o440)
    assert read_token(Connection(url="sc://oslo", token_file=str(file))) == SECRET


def test_what_is_no_tokens_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "long").touch(0o600)
    (tmp_path / "long").write_text("x" * 100_000)
    (tmp_path / "empty").touch(0o600)
    for name in ("pipe", "long", "empty", "nowhere", "."):
        with pytest.raises(InputError, match=r"token") as refused:
            read_token(Connection(url="sc://oslo", token_file=str(tmp_path / name)))
        assert refused.value.field == "connect.token_file"


def test_a_token_that_was_replaced_is_the_next_ones(file: Path) -> None:
    connection = Connection(url="sc://oslo", token_file=str(file))
    assert read_token(connection) == SECRET
    file.write_text("another")
    assert read_token(connection) == "another"
