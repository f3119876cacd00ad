from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

session = SparkSession.builder.getOrCreate()


@dp.table
def arrivals():
    return session.readStream.schema("ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP").json(
        "FOLDER/input"
    )


@dp.table(spark_conf={"spark.sql.session.timeZone": "Pacific/Honolulu"})
def days():
    return spark.readStream.table("arrivals").select(
        "ship", F.date_format("at", "yyyy-MM-dd HH:mm").alias("local")
    )
