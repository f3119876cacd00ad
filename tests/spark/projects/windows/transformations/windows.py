from pyspark import pipelines as dp
from pyspark.sql import functions as F


@dp.table
def half_hours():
    rows = spark.readStream.schema("ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP").json("FOLDER/input")
    late = rows.withWatermark("at", "5 minutes")
    sums = late.groupBy(F.window("at", "30 minutes"), "berth").agg(F.sum("tonnes").alias("tonnes"))
    return sums.select("window.start", "window.end", "berth", "tonnes")


@dp.table
def busy_half_hours():
    return spark.readStream.table("half_hours").where("tonnes > 30")
