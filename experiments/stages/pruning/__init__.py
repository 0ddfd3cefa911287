"""Depth pruning: which layers go, by which criterion, ranked on which weights, and the files without them."""
