"""One run of a project: brought up, written down while it runs, reported when it is over."""
