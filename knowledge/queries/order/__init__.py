"""The queue: what comes next, with the reason for each place, and what moved it."""
