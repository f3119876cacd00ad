"""Agents: the state machines of `protocols/` at real sites, with a clock, a disk and a network."""
