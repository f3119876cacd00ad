"""What moves in a video: the background subtracted, the rest smoothed in chunks, and its edges found."""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from scene.moving_scene import MovingScene
from scene.scene_functions import edges, foreground, smooth

from mooring.spark.chunks.bins import LearningBins
from mooring.spark.chunks.chunked import chunked
from mooring.spark.chunks.frame_rows import FRAME_COLUMNS

HERE = Path(__file__).resolve().parent.parent
BINS = LearningBins.on_cores(HERE / "routes", cores=2)  # planned anew after every micro-batch

(HERE / "input").mkdir(exist_ok=True)  # where frames come from, a parquet file each

spark = SparkSession.active()


@dp.table
def frames() -> DataFrame:
    return spark.readStream.schema(FRAME_COLUMNS).parquet(str(HERE / "input"))


@dp.table
def outlines() -> DataFrame:
    moved = chunked(spark.readStream.table("frames"), foreground(MovingScene().background), BINS)
    return chunked(chunked(moved, smooth(rounds=60), BINS), edges(), BINS)
