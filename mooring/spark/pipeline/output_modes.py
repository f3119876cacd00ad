"""Whether a flow can be written row by row, asked of Spark before anything runs.

A streaming table only grows, so a row that is written must be final ("append"). Spark refuses a query whose
rows are not, as an aggregate without a watermark, when it is started. Here it is started in a way that Spark
refuses for another reason, once it has looked at the query and before anything is read: progress that is
noted asynchronously, with a trigger that cannot have it.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from mooring.errors import InputError

_REFUSED_LATER = "Async progress tracking cannot be used with AvailableNow trigger"
_REMEDIES = {
    "aggregat": "give it a watermark and group by a window of that time (withWatermark, then window), or "
    "make it a materialized view, which is computed as a whole",
    "sort": "leave the order to whoever reads the table, or make it a materialized view",
    "join": "give both sides a watermark and the join a range of time, or make it a materialized view",
}


def check_appends(frame: DataFrame, flow: str, place: str) -> None:
    """Refuse a flow whose rows may still change after they were written."""
    writer = frame.writeStream.format("noop").outputMode("append").trigger(availableNow=True)
    try:
        started = writer.option("asyncProgressTrackingEnabled", "true").start()
    except AnalysisException as refused:
        why = str(refused).split(" SQLSTATE")[0].split(";\n")[0].strip().splitlines()[0].rstrip(";")
        remedy = next((said for word, said in _REMEDIES.items() if word in why.lower()), None)
        raise InputError(
            f"the flow {flow!r} cannot be written row by row: {why}", file=place, remedy=remedy
        ) from refused
    except PySparkException as refused:
        if _REFUSED_LATER not in str(refused):
            raise
    else:
        started.stop()
