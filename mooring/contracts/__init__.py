"""The contracts of the rooms below: policies, deciders, engines, clocks, machines at sites."""
