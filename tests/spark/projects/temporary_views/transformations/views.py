from pyspark import pipelines as dp


@dp.table
def arrivals():
    return spark.readStream.schema("ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP").json("FOLDER/input")


@dp.temporary_view
def first_berth():
    return spark.readStream.table("arrivals").where("berth = 1")


@dp.temporary_view
def light_at_first_berth():
    return spark.readStream.table("first_berth").where("tonnes < 100")


@dp.table
def at_first_berth():
    return spark.readStream.table("first_berth").select("ship", "tonnes")


@dp.table
def light():
    return spark.readStream.table("light_at_first_berth").select("ship", "at")
