"""Every experiment by name: the figures and tables of the papers, each in a file of its own."""

from __future__ import annotations

import difflib

from lab.experiments.adapting.hour import ADAPTING_HOUR
from lab.experiments.adapting.worth import ADAPTING_SCENARIOS
from lab.experiments.ants.figure2a import ANTS_FIGURE_2A
from lab.experiments.ants.figure2b import ANTS_FIGURE_2B
from lab.experiments.ants.figure3a import ANTS_FIGURE_3A
from lab.experiments.ants.figure3b import ANTS_FIGURE_3B
from lab.experiments.ants.figure4 import ANTS_FIGURE_4
from lab.experiments.ants.queueing import ANTS_QUEUEING
from lab.experiments.ants.table1 import ANTS_TABLE_1
from lab.experiments.chunks.bound import CHUNKS_BOUND
from lab.experiments.chunks.figure5 import CHUNKS_FIGURE_5
from lab.experiments.chunks.figure6 import CHUNKS_FIGURE_6
from lab.experiments.chunks.figure7 import CHUNKS_FIGURE_7
from lab.experiments.chunks.figure8 import CHUNKS_FIGURE_8
from lab.experiments.experiment import Experiment
from lab.experiments.overlay.figure3 import OVERLAY_FIGURE_3
from lab.experiments.overlay.figure4 import OVERLAY_FIGURE_4
from lab.experiments.overlay.search import OVERLAY_SEARCH
from lab.experiments.rod.figure9 import ROD_FIGURE_9
from lab.experiments.rod.figure14 import ROD_FIGURE_14
from lab.experiments.rod.figure15 import ROD_FIGURE_15
from lab.experiments.rod.figure16 import ROD_FIGURE_16, ROD_TABLE_3
from lab.experiments.rod.figure17 import ROD_FIGURE_17
from lab.experiments.rod.figure18 import ROD_FIGURE_18
from lab.experiments.rod.figure19 import ROD_FIGURE_19
from lab.experiments.rod.optimum import ROD_OPTIMUM
from lab.experiments.sbon.deceit import SBON_DECEIT
from lab.experiments.sbon.figure5 import SBON_FIGURE_5
from lab.experiments.sbon.figure14 import SBON_FIGURE_14
from lab.experiments.sbon.migration import SBON_MIGRATION
from lab.experiments.sbon.reuse import SBON_REUSE
from lab.experiments.sbon.table1 import SBON_TABLE_1
from lab.experiments.sbon.timeline import SBON_TIMELINE
from lab.experiments.spark.chunks import SPARK_CHUNKS
from lab.experiments.spark.feasible_set import SPARK_FEASIBLE_SET
from lab.experiments.spark.figure18 import SPARK_FIGURE_18
from mooring.errors import InputError

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        ROD_FIGURE_9,
        ROD_FIGURE_14,
        ROD_FIGURE_15,
        ROD_FIGURE_16,
        ROD_TABLE_3,
        ROD_FIGURE_17,
        ROD_FIGURE_18,
        ROD_FIGURE_19,
        ROD_OPTIMUM,
        SBON_TABLE_1,
        SBON_FIGURE_5,
        SBON_MIGRATION,
        SBON_TIMELINE,
        SBON_REUSE,
        SBON_FIGURE_14,
        SBON_DECEIT,
        OVERLAY_FIGURE_3,
        OVERLAY_FIGURE_4,
        OVERLAY_SEARCH,
        ADAPTING_HOUR,
        ADAPTING_SCENARIOS,
        ANTS_FIGURE_2A,
        ANTS_FIGURE_2B,
        ANTS_FIGURE_3A,
        ANTS_FIGURE_3B,
        ANTS_TABLE_1,
        ANTS_FIGURE_4,
        ANTS_QUEUEING,
        CHUNKS_FIGURE_5,
        CHUNKS_FIGURE_6,
        CHUNKS_FIGURE_7,
        CHUNKS_FIGURE_8,
        CHUNKS_BOUND,
        SPARK_FEASIBLE_SET,
        SPARK_FIGURE_18,
        SPARK_CHUNKS,
    )
}


def find_experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise InputError(
            f"found {name!r}, expected an experiment",
            field="NAME",
            remedy=f"did you mean {' or '.join(_meant(name))}? `mooring experiment` lists them",
        )
    return EXPERIMENTS[name]


def _meant(name: str) -> list[str]:
    """Several papers have a Figure 14: without its paper a name may mean each of them."""
    of_some_paper = [known for known in EXPERIMENTS if known.partition("_")[2] == name]
    return of_some_paper or difflib.get_close_matches(name, EXPERIMENTS, n=1, cutoff=0.0)
