"""Jars are fetched once, by checksum where one is given, and without network afterwards."""

from __future__ import annotations

import hashlib
import http.server
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.errors import EngineError
from mooring.spark.connectors.fetched_jars import fetched_jars
from mooring.spark.connectors.wanted_jars import WantedJars
from mooring.spark.sites.java import Java, find_java

NO_JAVA = Java(Path("/no/java"), 17, "nowhere")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, bytes]]:
    """The address of a jar, and its bytes."""
    content = b"a jar"

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/x-1.jar" else 404)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/x-1.jar", content
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_download_is_kept_and_not_asked_for_again(served: tuple[str, bytes], tmp_path: Path) -> None:
    address, content = served
    wanted = WantedJars(downloads=(f"{address}#sha256={hashlib.sha256(content).hexdigest()}",))
    (jar,) = fetched_jars(wanted, NO_JAVA, tmp_path)
    assert (jar.name, jar.read_bytes()) == ("x-1.jar", content)
    jar.write_bytes(b"as it was kept")
    assert fetched_jars(wanted, NO_JAVA, tmp_path) == (jar,)
    assert jar.read_bytes() == b"as it was kept"


def test_a_jar_that_a_power_cut_left_empty_is_fetched_again(
    served: tuple[str, bytes], tmp_path: Path
) -> None:
    wanted = WantedJars(downloads=(served[0],))
    (jar,) = fetched_jars(wanted, NO_JAVA, tmp_path)
    jar.write_bytes(b"")
    assert fetched_jars(wanted, NO_JAVA, tmp_path) == (jar,)
    assert jar.read_bytes() == served[1]


def test_a_download_with_another_checksum_is_refused_and_not_kept(
    served: tuple[str, bytes], tmp_path: Path
) -> None:
    wanted = WantedJars(downloads=(f"{served[0]}#sha256={'0' * 64}",))
    with pytest.raises(EngineError, match=r"another checksum than mooring\.yml states"):
        fetched_jars(wanted, NO_JAVA, tmp_path)
    assert not list(tmp_path.rglob("*.jar"))


def test_without_network_the_error_says_what_to_do(tmp_path: Path) -> None:
    wanted = WantedJars(downloads=("http://127.0.0.1:1/x.jar",))
    with pytest.raises(EngineError) as found:
        fetched_jars(wanted, NO_JAVA, tmp_path)
    assert "http://127.0.0.1:1/x.jar cannot be fetched" in found.value.message
    assert "under `jars` in mooring.yml" in (found.value.remedy or "")


IVY = """\
<ivy-module version="2.0">
  <info organisation="{group}" module="{name}" revision="1"/>
  <publications><artifact name="{name}" type="jar" ext="jar"/></publications>
  <dependencies>{needs}</dependencies>
</ivy-module>
"""


def publish(folder: Path, group: str, name: str, needs: str = "") -> None:
    """Into the local repository of the resolver's own folder, which it asks before the network."""
    home = folder / "ivy" / "local" / group / name / "1"
    (home / "ivys").mkdir(parents=True)
    (home / "ivys" / "ivy.xml").write_text(IVY.format(group=group, name=name, needs=needs))
    (home / "jars").mkdir()
    with zipfile.ZipFile(home / "jars" / f"{name}.jar", "w") as jar:
        jar.writestr("mark.txt", name)


def test_packages_come_with_what_they_need_and_are_resolved_once(tmp_path: Path) -> None:
    publish(tmp_path, "org.example", "needed")
    publish(tmp_path, "org.example", "asked", '<dependency org="org.example" name="needed" rev="1"/>')
    wanted = WantedJars(packages=("org.example:asked:1",))
    jars = fetched_jars(wanted, find_java(), tmp_path)
    assert sorted(jar.name for jar in jars) == ["org.example_asked-1.jar", "org.example_needed-1.jar"]
    assert fetched_jars(wanted, NO_JAVA, tmp_path) == jars  # no Java: nothing was resolved anew


def test_a_package_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    settings = tmp_path / "local-only.xml"
    settings.write_text(
        "<ivysettings><settings defaultResolver='local'/><resolvers><filesystem name='local'>"
        f"<artifact pattern='{tmp_path}/[artifact].[ext]'/></filesystem></resolvers></ivysettings>"
    )
    wanted = WantedJars(packages=("org.example:absent:7",), ivy_settings=str(settings))
    with pytest.raises(EngineError) as found:
        fetched_jars(wanted, find_java(), tmp_path)
    assert "not found: org.example:absent:7" in found.value.message
    assert "under `jars` in mooring.yml" in (found.value.remedy or "")
