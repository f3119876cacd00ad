"""What the rows of chunks on Spark say together, without Spark."""

from __future__ import annotations

from lab.experiments.spark.chunks import SPARK_CHUNKS, conclude
from lab.experiments.summary import summarise
from lab.experiments.trials import Row


def row(part: str, way: str, frame: int, inside: float, *, counts: int = 1, same: int = 1) -> Row:
    return {
        "part": part,
        "chunks_are": way,
        "frame": frame,
        "counts": counts,
        "scatter_to_gather_ms": inside,
        "end_to_end_ms": inside + 100,
        "busiest_cpu_ms": inside / 2,
        "cpu_ms": inside,
        "chunks": 2,
        "same_bytes": same,
    }


ROWS = [
    *(row("slots", "equal", n, 400.0 if n else 9000.0, counts=int(n > 0)) for n in range(3)),
    *(row("slots", "planned", n, 300.0, counts=int(n > 0)) for n in range(3)),
]


def test_frames_of_the_warm_up_do_not_count() -> None:
    table = summarise(SPARK_CHUNKS.summaries[0], ROWS)
    shown = [[str(cell) for cell in line][:3] for line in table.rows]
    assert shown == [["slots", "equal", "400.0 ±0.0"], ["slots", "planned", "300.0 ±0.0"]]


def test_the_conclusion_compares_with_equal_chunks_and_says_whether_bytes_differ() -> None:
    assert conclude(ROWS) == [
        "slots: planned against equal chunks, 25% less from scatter to gather, 20% less end to end.",
        "Results of all ways were equal byte for byte.",
    ]
    slower = [*ROWS[:3], *(row("slots", "planned", n, 500.0) for n in range(3))]
    assert "25% more from scatter to gather" in conclude(slower)[0]
    assert "DIFFERENT" in conclude([*ROWS, row("slots", "planned", 3, 300.0, same=0)])[-1]


def test_the_figure_is_drawn_from_the_rows() -> None:
    assert len(SPARK_CHUNKS.draw(ROWS).axes) == 1
