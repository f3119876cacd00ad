"""Ants: decentralised placement of chains by latency, as state machines of sites."""
