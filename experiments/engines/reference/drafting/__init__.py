"""Speculative decoding in the reference engine: a step that verifies drafts, and what drafts them."""
