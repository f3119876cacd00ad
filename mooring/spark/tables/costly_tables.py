"""Tables that are kept since nothing else was said of them, and cost a fragment for it."""

from __future__ import annotations

from mooring.spark.pipeline.layout import Layout, asked_for, fragments_with


def costly_tables(layout: Layout) -> list[str]:
    """Those that would run inside the fragment of their reader if they were not kept."""
    project, pipeline = layout.project, layout.pipeline
    least = fragments_with(project, pipeline, layout.before, asked_for(project, pipeline))
    return [pipeline.flows[name].dataset for name in layout.fragments if name not in least]


def costly_tables_note(layout: Layout) -> list[str]:
    """In a sentence, if there are such."""
    if not (tables := costly_tables(layout)):
        return []
    example = f"`tables: {{{tables[0]}: {{keep: read}}}}`"
    return [
        f"{', '.join(tables)} {'is' if len(tables) == 1 else 'are'} kept, which takes a fragment "
        f"{'more' if len(tables) == 1 else 'more each'}; for a table without readers of its own, {example} "
        "avoids that"
    ]
