from pyspark import pipelines as dp

dp.create_sink("ledger", "parquet", {"path": "FOLDER/out/ledger"})


@dp.table
def arrivals():
    return spark.readStream.schema("ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP").json("FOLDER/input")


@dp.append_flow(target="ledger")
def into_the_ledger():
    return spark.readStream.table("arrivals").select("ship", "tonnes")
