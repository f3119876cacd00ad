from pyspark import pipelines as dp
from pyspark.sql import functions as F


@dp.table
def arrivals():
    return spark.readStream.schema("ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP").json("FOLDER/input")


@dp.materialized_view(comment="What lies outside the pipeline and changes rarely")
def piers():
    return spark.read.schema("berth INT, pier STRING").option("header", True).csv("FOLDER/piers.csv")


@dp.materialized_view
def per_ship():
    return (
        spark.read.table("arrivals")
        .groupBy("ship")
        .agg(F.count("*").alias("calls"), F.sum("tonnes").alias("tonnes"))
    )


@dp.materialized_view
def per_pier():
    joined = spark.read.table("arrivals").join(spark.read.table("piers"), "berth")
    return joined.groupBy("pier").agg(F.sum("tonnes").alias("tonnes"), F.max("at").alias("last"))


@dp.materialized_view
def regulars():
    return spark.read.table("per_ship").where("calls > 1").select("ship")
