"""Shapes: checkpoints without weights, of which an engine measures times alone (docs/shapes.md)."""
