from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
SCHEMA = "ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP"

dp.create_streaming_table("arrivals", comment="At all piers")
dp.create_sink("ledger", "parquet", {"path": "FOLDER/out/ledger"})


@dp.append_flow(target="arrivals")
def log():
    return spark.readStream.schema(SCHEMA).json("FOLDER/input")


@dp.temporary_view
def weighed():
    return spark.readStream.table("arrivals").where("tonnes >= 0")


@dp.append_flow(target="ledger")
def into_the_ledger():
    return spark.readStream.table("weighed").select("ship", "tonnes")


@dp.table(partition_cols=["berth"])
def half_hours():
    rows = spark.readStream.schema(SCHEMA).json("FOLDER/input").withWatermark("at", "5 minutes")
    sums = rows.groupBy(F.window("at", "30 minutes"), "berth").agg(F.sum("tonnes").alias("tonnes"))
    return sums.select("window.start", "tonnes", "berth")


@dp.materialized_view
def piers():
    return spark.read.schema("berth INT, pier STRING").option("header", True).csv("FOLDER/piers.csv")
