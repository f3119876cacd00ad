"""What is kept of a run: its figures, its picture, its report."""
