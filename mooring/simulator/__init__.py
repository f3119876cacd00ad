"""Virtual time: the event kernel, sites and links as queues, traces, faults, invariant checkers."""
