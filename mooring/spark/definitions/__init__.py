"""What a project's definition files find when Spark runs them: names, settings, modules and a session."""
