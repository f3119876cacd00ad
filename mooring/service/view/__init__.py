"""Views of runs and problems as documents, without anything of the web."""
