"""Findings: what verdicts together say, each within its scope."""
