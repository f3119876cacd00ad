"""What the rest is written against: policies, deciders, engines, clocks, machines at sites."""
