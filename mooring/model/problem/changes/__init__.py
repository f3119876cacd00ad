"""What happens to a problem while it runs, as data: timed changes."""
