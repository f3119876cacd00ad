"""Load: coefficients, linearisation, the feasible set and headroom."""
