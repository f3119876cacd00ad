"""One update of a pipeline: everything reads what there is, in the order of the graph, and ends."""
