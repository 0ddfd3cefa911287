"""The typed, conditional configuration space."""
