"""What a fragment keeps between two starts: its checkpoint in parts, its state, and whose flows it is of."""
