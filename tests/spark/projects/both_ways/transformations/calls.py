from pyspark import pipelines as dp
from pyspark.sql import functions as F


@dp.table
def arrivals():
    return spark.readStream.schema("ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP").json("FOLDER/input")


@dp.table
def shares():
    """Each arrival beside what its ship has brought so far."""
    so_far = spark.read.table("arrivals").groupBy("ship").agg(F.sum("tonnes").alias("so_far"))
    return spark.readStream.table("arrivals").join(so_far, "ship").select("ship", "tonnes", "so_far")


@dp.temporary_view
def busy():
    return spark.read.table("arrivals").groupBy("berth").agg(F.count("*").alias("calls"))


@dp.table
def by_way_of_a_view():
    return spark.readStream.table("arrivals").join(spark.table("busy"), "berth").select("ship", "calls")
