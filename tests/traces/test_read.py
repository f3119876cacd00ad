"""Arrival files: the formats that real traces come in, and what happens to damaged or hostile ones."""

from __future__ import annotations

import gzip
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from mooring.errors import InputError
from mooring.traces import bounded, read
from mooring.traces.read import arrival_instants

GAPS_TEXT = "   1.0000000e-03\r\n   2.0000000e-03\r\n   0.0000000e+00\r\n"
INSTANTS_S = [0.0, 0.001, 0.003, 0.003]


def refused_or_finite(path: Path) -> None:
    """Anything but an InputError about this file, or instants that can be used, fails."""
    try:
        outcome: InputError | np.ndarray = arrival_instants(path)
    except InputError as error:
        outcome = error
    assert outcome.file == str(path) if isinstance(outcome, InputError) else np.isfinite(outcome).all()


def in_zip(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz", ".zip", ".mat"])
def test_the_same_gaps_give_the_same_instants_in_every_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"trace{suffix}"
    match suffix:
        case ".txt":
            path.write_text(GAPS_TEXT)
        case ".txt.gz":
            path.write_bytes(gzip.compress(GAPS_TEXT.encode()))
        case ".zip":
            in_zip(path, S=GAPS_TEXT)
        case ".mat":
            savemat(path, {"S": np.diff(INSTANTS_S)[:, None], "F": np.ones(3)}, do_compression=True)
    np.testing.assert_allclose(arrival_instants(path), INSTANTS_S, atol=1e-15)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("0.1\nnan\n", "gap 2"),
        ("0.1\n0.2\n-0.1\n", "gap 3"),
        ("inf\n", "gap 1"),
        ("1e308\n1e308\n", "gap 1"),
        ("2e9\n2e9\n", "add up"),
        ("0.1\nabc\n", "list of gaps"),
        ("0.1 0.2\n0.3 0.4\n", "2 columns"),
        ("", "no gaps"),
        ("caf\xe9", "not text"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place_and_a_remedy(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "trace.txt"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=what) as caught:
        arrival_instants(path)
    assert caught.value.file == str(path)
    assert caught.value.remedy


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    for name in ("a.txt", "a.zip", "a.mat", "a.npz"):
        with pytest.raises(InputError, match="no such trace"):
            arrival_instants(tmp_path / name)


def test_a_zip_bomb_is_refused_before_it_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = in_zip(tmp_path / "bomb.zip", S="0.1\n" * 500_000)
    monkeypatch.setattr(bounded.read_expanded, "__defaults__", (10_000,))
    with pytest.raises(InputError, match="more than 10000 bytes"):
        arrival_instants(path)


def test_a_matlab_bomb_is_refused_before_scipy_expands_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.mat"
    savemat(path, {"S": np.ones(100_000)}, do_compression=True)
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(read, "MAX_BYTES", 10_000)
    monkeypatch.setattr(read, "loadmat", lambda *_, **__: pytest.fail("expanded"))
    with pytest.raises(InputError, match="more than 10000 bytes"):
        arrival_instants(path)


def test_too_many_arrivals_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long.txt"
    path.write_text("0.1\n" * 10)
    monkeypatch.setattr(read, "MAX_ARRIVALS", 10)
    with pytest.raises(InputError, match="at most 9"):
        arrival_instants(path)


def test_a_zip_must_hold_one_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds 2 files"):
        arrival_instants(in_zip(tmp_path / "two.zip", a="1", b="2"))


@pytest.mark.parametrize("variables", [{"X": np.ones(3)}, {"S": np.ones((3, 3))}, {"S": "words"}])
def test_a_matlab_file_must_hold_a_vector_s(tmp_path: Path, variables: dict[str, object]) -> None:
    path = tmp_path / "a.mat"
    savemat(path, variables)
    with pytest.raises(InputError, match="S"):
        arrival_instants(path)


@pytest.mark.parametrize("suffix", [".zip", ".txt.gz", ".mat", ".npz", ".txt"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=400), cut=st.integers(0, 400), at=st.integers(0, 400))
def test_damaged_files_never_raise_anything_but_an_input_error(
    tmp_path: Path, suffix: str, noise: bytes, cut: int, at: int
) -> None:
    path = tmp_path / f"trace{suffix}"
    if suffix == ".zip":
        in_zip(path, S=GAPS_TEXT)
    elif suffix == ".mat":
        savemat(path, {"S": np.ones(5)}, do_compression=True)
    elif suffix == ".npz":
        np.savez_compressed(path, tick_us=20, gap_low=np.ones(9, np.uint8), gap_high=np.ones(9, np.uint8))
    elif suffix == ".txt.gz":
        path.write_bytes(gzip.compress(GAPS_TEXT.encode()))
    else:
        path.write_text(GAPS_TEXT)
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + noise + whole[at + cut :])
    refused_or_finite(path)


def test_a_matlab_element_that_claims_four_gigabytes_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "lie.mat"
    savemat(path, {"S": np.ones(5)}, do_compression=True)
    content = bytearray(path.read_bytes())
    matrix = bytearray(zlib.decompress(content[136:]))
    matrix[4:8] = struct.pack("<I", 2**32 - 8)
    packed = zlib.compress(bytes(matrix))
    path.write_bytes(content[:132] + struct.pack("<I", len(packed)) + packed)
    refused_or_finite(path)


def test_zstandard_without_its_library_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(name: str) -> object:
        raise ImportError(name)

    path = tmp_path / "trace.txt.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd")
    monkeypatch.setattr("importlib.import_module", nothing)
    with pytest.raises(InputError, match="pip install zstandard"):
        arrival_instants(path)
