import sys

sys.path.insert(0, "FOLDER/shared")

from berths import PIERS, loud
from pyspark import pipelines as dp
from pyspark.sql import functions as F


@dp.table
def arrivals():
    return spark.readStream.schema("ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP").json("FOLDER/input")


def pier_table(pier, berths):
    @dp.table(name=f"{pier}_arrivals")
    def at_pier():
        rows = spark.readStream.table("arrivals").where(F.col("berth").isin(berths))
        return rows.select(loud(F.col("ship")).alias("ship"))


for pier, berths in PIERS.items():
    pier_table(pier, berths)
