"""What is shown, as documents: nothing here knows of the web."""
