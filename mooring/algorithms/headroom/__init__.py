"""Moves where the measured rates leave too little room."""
