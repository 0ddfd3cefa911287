"""The proposer `confirmation`: after a chain of steps, the best configuration against the baseline itself."""

from __future__ import annotations

PROPOSER = "confirmation"
"""The name under which the loop puts that test into the queue."""
