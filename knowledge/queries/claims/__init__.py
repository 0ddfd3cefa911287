"""Hypotheses: who proposed them, what was predicted of them, what became of them."""
