"""Upper and lower bounds of all plans, which show how much better a plan could be."""
