"""What, where and how much: data and arithmetic, and no choice."""
