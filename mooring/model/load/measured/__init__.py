"""From measurements to statistics: what operators cost as observed while they ran."""
