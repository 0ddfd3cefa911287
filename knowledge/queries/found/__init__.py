"""Findings, what they rest on and what speaks against them."""
