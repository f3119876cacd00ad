"""A real Kafka broker of one node, on the loopback unless told otherwise, which never outlives the tests."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from mooring.spark.sites import site_watchdog
from mooring.spark.sites.java import Java

_PATIENCE_S = 400.0
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{host}:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller_port}
log.dirs={folder}/topics
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.message.timestamp.type=LogAppendTime
num.partitions=2
group.initial.rebalance.delay.ms=0
"""


class KafkaBroker:
    """Started when made; `stop()` ends it, as does the end of this process, however it ends."""

    def __init__(self, folder: Path, jars: list[Path], java: Java, host: str = "127.0.0.1") -> None:
        self._java = java
        self._classes = ":".join(map(str, jars))
        port, controller_port = _free_ports(host, 2)
        self.address = f"{host}:{port}"
        properties = folder / "server.properties"
        properties.write_text(
            _PROPERTIES.format(host=host, port=port, controller_port=controller_port, folder=folder)
        )
        # Two zero bits first: an id that begins with "-" would be read as an option.
        cluster = urlsafe_b64encode(bytes([1]) + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        format_storage = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)]
        subprocess.run(self._command(*format_storage), check=True, capture_output=True, timeout=_PATIENCE_S)
        self.log = folder / "broker.log"
        self.log.touch()
        order = {
            "command": self._command("kafka.Kafka", str(properties)),
            "log": str(self.log),
            "scratch": str(folder / "topics"),
            "cgroups": [],
            "grace_s": 8.0,
        }
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", site_watchdog.__file__, json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
        )

    def _command(self, *words: str) -> list[str]:
        lean = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
        return [str(self._java.path), *lean, "-cp", self._classes, *words]

    def wait_ready(self) -> None:
        """It accepts nobody before it can answer."""
        deadline = time.monotonic() + _PATIENCE_S
        host, port = self.address.split(":")
        while True:
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
                return
            except OSError:
                pass
            assert self._keeper.poll() is None, self.log.read_text()[-2000:]
            assert time.monotonic() < deadline, self.log.read_text()[-2000:]
            time.sleep(0.05)

    def stop(self) -> None:
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.wait(30)
        self._keeper.stdout.close()


def _free_ports(host: str, count: int) -> list[int]:
    """Ports that were free a moment ago: the broker must be told its own before it starts."""
    held = [socket.create_server((host, 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
