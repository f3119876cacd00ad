"""Agents: state machines at real sites, with a clock, a disk and a network."""
