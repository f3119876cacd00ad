"""Who goes where: the placement, the policy protocol, evaluation and explanation, one file per algorithm."""
