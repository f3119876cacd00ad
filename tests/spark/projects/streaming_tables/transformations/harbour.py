from pyspark import pipelines as dp
from pyspark.sql import functions as F


@dp.table(comment="As the harbour's log has it")
def bronze():
    return spark.readStream.schema("ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP").json("FOLDER/input")


@dp.table
def silver():
    return spark.readStream.table("bronze").where("tonnes >= 0").withColumn("ship", F.upper("ship"))


@dp.table(name="heavy")
def over_a_hundred():
    return spark.readStream.table("silver").where("tonnes > 100").select("ship", "tonnes")
