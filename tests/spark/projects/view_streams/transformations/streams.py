from pyspark import pipelines as dp
from pyspark.sql import functions as F

dp.create_sink("changes", "parquet", {"path": "FOLDER/out/changes"})


@dp.table
def arrivals():
    return spark.readStream.schema("ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP").json("FOLDER/input")


@dp.materialized_view
def per_ship():
    return spark.read.table("arrivals").groupBy("ship").agg(F.sum("tonnes").alias("tonnes"))


@dp.materialized_view(partition_cols=["berth"])
def per_berth():
    calls = spark.read.table("arrivals").groupBy("berth").agg(F.count("*").alias("calls"))
    return calls.select("calls", "berth")


@dp.materialized_view
def sunk():
    return spark.read.table("arrivals").where("tonnes < 0")


@dp.append_flow(target="changes")
def into_changes():
    return spark.readStream.table("per_ship")


@dp.table
def history():
    """The rows of every version, once each."""
    return spark.readStream.table("per_ship").where("tonnes > 0")


@dp.table
def heavy():
    return spark.readStream.table("history").where("tonnes >= 80")


@dp.table
def wrecks():
    return spark.readStream.table("sunk")
