"""Stages turn typed inputs into artifacts or measurements."""
