"""Experiments, each down to its samples: what was measured, how, and what the judge said."""
