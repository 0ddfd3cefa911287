"""Proposers: each reads what is known and returns drafts of hypotheses."""
