from pyspark import pipelines as dp
from pyspark.sql import functions as F


@dp.table
def arrivals():
    return spark.readStream.schema("ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP").json("FOLDER/input")


@dp.table
def half_hours():
    rows = spark.readStream.table("arrivals").withWatermark("at", "5 minutes")
    sums = rows.groupBy(F.window("at", "30 minutes"), "berth").agg(F.sum("tonnes").alias("tonnes"))
    return sums.select("window.start", "window.end", "berth", "tonnes")
