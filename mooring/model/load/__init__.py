"""How much: load coefficients, linearisation, the feasible set and headroom."""
