from pyspark.sql import functions as F

PIERS = {"north": [1], "south": [2, 3]}


def loud(column):
    return F.concat(F.upper(column), F.lit("!"))
