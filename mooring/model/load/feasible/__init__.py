"""The feasible set: rate combinations under which no site is overloaded, and how large it is."""
