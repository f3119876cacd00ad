"""SBON's optimisers, as state machines of sites."""
