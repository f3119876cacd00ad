"""Values out of files: YAML 1.2, fields checked one by one, files named beside a file."""
