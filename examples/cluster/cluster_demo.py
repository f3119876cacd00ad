"""The demo's pipeline with a cluster as one of its three sites.

    python examples/cluster/cluster_demo.py [--workers 3] [--seconds 600]

A master, workers of one core and a Connect server come up on this machine (standalone.py). The project of
examples/network_monitoring then runs with that server in the place of the site in Porto, is fed as in its own
demo, and every delivered row is compared with the truth. Everything ends with it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "network_monitoring")]

from demo import fresh_copy, run_demo  # noqa: E402
from standalone import Cluster  # noqa: E402


def with_cluster(folder: Path, cluster: Cluster, cores: int) -> None:
    """Rewrite mooring.yml: the third site is the cluster."""
    token = cluster.folder / "token"
    token.touch(0o600)
    token.write_text(cluster.token)
    file = folder / "mooring.yml"
    settings = yaml.safe_load(file.read_text())
    connect = {"url": cluster.address, "token_file": str(token)}
    settings["sites"]["porto"] = {"capacity": cores, "connect": connect}
    file.write_text(yaml.safe_dump(settings, sort_keys=False))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=600.0, help="of the trace (at most 600)")
    parser.add_argument("--output", type=Path, default=Path("out"), help="where the copy and the cluster lie")
    words = parser.parse_args()
    folder = fresh_copy(words.output.resolve() / "network_monitoring_cluster")
    with Cluster(words.output / "cluster", workers=words.workers) as cluster:
        with_cluster(folder, cluster, words.workers)
        verdicts, _ = run_demo(folder, "rod", words.seconds, flooded=False)
    for verdict in verdicts:
        state = "equal to the truth" if verdict.exact else f"{verdict.missing} missing, {verdict.extra} wrong"
        sys.stdout.write(f"{verdict.query:16} {verdict.delivered:6} rows: {state}\n")
    return 0 if all(verdict.exact for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
