from pyspark import pipelines as dp

dp.create_streaming_table("arrivals", comment="From both piers")


@dp.append_flow(target="arrivals")
def from_the_north():
    return spark.readStream.schema("ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP").json(
        "FOLDER/input/north"
    )


@dp.append_flow(target="arrivals", name="from_the_south")
def southern():
    rows = spark.readStream.schema("ship STRING, berth INT, tonnes DOUBLE, at TIMESTAMP").json(
        "FOLDER/input/south"
    )
    return rows.selectExpr("ship", "berth + 10 AS berth", "tonnes", "at")


@dp.table
def ships():
    return spark.readStream.table("arrivals").select("ship", "berth")


@dp.append_flow(target="ships")
def visitors():
    return (
        spark.readStream.table("arrivals")
        .where("tonnes > 100")
        .selectExpr("concat('visitor ', ship) AS ship", "berth")
    )
