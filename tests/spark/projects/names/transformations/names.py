from pyspark import pipelines as dp


@dp.table
def arrivals():
    return spark.readStream.schema("ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP").json("FOLDER/input")


@dp.table(name="harbour.by_two_parts")
def two():
    return spark.readStream.table("harbour.arrivals").select("ship")


@dp.table(name="spark_catalog.archive.by_three_parts")
def three():
    return spark.readStream.table("spark_catalog.harbour.arrivals").select("berth")
