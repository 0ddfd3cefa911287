"""Replays of measured tables: planners against what was measured, without a GPU (docs/replay.md)."""
