"""A spec's settings reach a site, except what would open the site to others; values that are secrets are
shown nowhere.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from pyspark.pipelines.cli import PipelineSpec

from mooring.errors import InputErrors
from mooring.spark.definitions.session_settings import launch_settings, shown_value

FILE = Path("spark-pipeline.yml")


def spec(**configuration: str) -> PipelineSpec:
    named = {name.replace("__", "."): value for name, value in configuration.items()}
    return PipelineSpec("p", None, None, "file:///tmp/p", named, [])


def test_what_guards_a_site_is_refused_by_name_and_all_at_once() -> None:
    guarded = spec(
        spark__authenticate="false",
        spark__connect__authenticate__token="mine",
        spark__connect__grpc__binding__address="0.0.0.0",
        spark__sql__shuffle__partitions="2",
    )
    with pytest.raises(InputErrors) as refusal:
        launch_settings(guarded, FILE)
    assert [each.field for each in refusal.value.errors] == [
        "configuration.spark.authenticate",
        "configuration.spark.connect.authenticate.token",
        "configuration.spark.connect.grpc.binding.address",
    ]
    assert "mine" not in str(refusal.value)


def test_what_mooring_decides_itself_is_left_out_and_the_rest_is_given() -> None:
    given = launch_settings(
        spec(spark__master="local[9]", spark__hadoop__fs__s3a__secret__key="k", x="y"), FILE
    )
    assert given == {"spark.hadoop.fs.s3a.secret.key": "k"}


@pytest.mark.parametrize(
    "name",
    ["spark.hadoop.fs.s3a.access.key", "fs.azure.account.key.x", "spark.ssl.keyPassword", "my_TOKEN"],
)
def test_the_value_of_a_secret_is_not_shown(name: str) -> None:
    assert "hush" not in shown_value(name, "hush")
    assert "hush" in shown_value("spark.sql.shuffle.partitions", "hush")
