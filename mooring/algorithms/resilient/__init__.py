"""The search for the plan with the largest feasible set."""
