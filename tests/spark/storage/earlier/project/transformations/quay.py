from pyspark import pipelines as dp
from pyspark.sql import functions as F

dp.create_sink("ledger", "parquet", {"path": "FOLDER/out/ledger"})
dp.create_sink("hours", "parquet", {"path": "FOLDER/out/hours"})


@dp.table
def arrivals():
    return spark.readStream.schema("n LONG, at TIMESTAMP").json("FOLDER/input")


@dp.table
def even():
    return spark.readStream.table("arrivals").filter("n % 2 = 0")


@dp.append_flow(target="ledger")
def into_ledger():
    return spark.readStream.table("even").select("n")


@dp.append_flow(target="hours")
def into_hours():
    rows = spark.readStream.table("arrivals").withWatermark("at", "1 hour")
    hours = rows.groupBy(F.window("at", "1 hour")).agg(F.count("*").alias("ships"))
    return hours.select(F.col("window.start").alias("hour"), "ships")


@dp.materialized_view
def totals():
    return spark.read.table("arrivals").agg(F.count("*").alias("ships"), F.max("n").alias("last"))


@dp.table
def history():
    return spark.readStream.table("totals")
