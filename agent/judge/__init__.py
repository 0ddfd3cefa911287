"""The judge: pure functions from evidence to steps and verdicts."""
