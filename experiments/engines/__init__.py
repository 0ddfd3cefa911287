"""Engines serve a configuration and are measured; found by entry points."""
