"""The environment of a project's definition files: names, settings, modules and a session."""
