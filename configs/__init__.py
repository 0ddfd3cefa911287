"""Typed settings, packaged YAML and the errors a user sees."""
