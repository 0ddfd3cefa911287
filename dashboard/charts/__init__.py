"""Geometry of charts: values in, per-cent positions out. Pure."""
