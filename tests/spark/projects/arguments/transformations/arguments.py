from pyspark import pipelines as dp
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegerType, StringType, StructType


@dp.table(schema="ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP", table_properties={"owner": "harbour"})
def arrivals():
    return spark.readStream.schema("ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP").json("FOLDER/input")


@dp.table(partition_cols=["berth"], format="parquet", comment="A folder per berth")
def by_berth():
    return spark.readStream.table("arrivals").select("ship", "tonnes", "berth")


@dp.table(
    format="json",
    schema=StructType().add("ship", StringType()).add("berth", IntegerType()).add("tonnes", DoubleType()),
)
def as_json():
    return spark.readStream.table("arrivals").select("ship", "berth", "tonnes")


@dp.materialized_view(partition_cols=["berth"])
def tonnes_by_berth():
    return (
        spark.read.table("by_berth")
        .groupBy("berth")
        .agg(F.sum("tonnes").alias("tonnes"))
        .select("tonnes", "berth")
    )


@dp.table(format="orc", cluster_by=["berth"])
def as_orc():
    return spark.readStream.table("as_json").select("ship", "berth", "tonnes")


@dp.table(format="csv", partition_cols=["berth"])
def as_csv():
    return spark.readStream.table("arrivals").select("ship", "tonnes", "at", "berth")


@dp.materialized_view(format="csv", cluster_by=["berth"])
def calls():
    return (
        spark.read.table("as_csv").groupBy("berth").agg(F.count("*").alias("calls"), F.max("at").alias("at"))
    )


@dp.materialized_view(format="orc")
def most_calls():
    return spark.read.table("calls").join(spark.read.table("as_orc"), "berth").where("calls > 1")
