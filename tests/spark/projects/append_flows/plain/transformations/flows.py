"""The same rows without several flows into one table, of which plain Spark loses all but one's.

Every flow appends to the same log of files, where batch 0 of the second one is taken for done already.
"""

from pyspark import pipelines as dp

SCHEMA = "ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP"


@dp.table
def part_north():
    return spark.readStream.schema(SCHEMA).json("FOLDER/input/north")


@dp.table
def part_south():
    rows = spark.readStream.schema(SCHEMA).json("FOLDER/input/south")
    return rows.selectExpr("ship", "berth + 10 AS berth", "tonnes", "at")


@dp.materialized_view
def arrivals():
    return spark.read.table("part_north").union(spark.read.table("part_south"))


@dp.materialized_view
def ships():
    rows = spark.read.table("arrivals")
    visitors = rows.where("tonnes > 100").selectExpr("concat('visitor ', ship) AS ship", "berth")
    return rows.select("ship", "berth").union(visitors)
