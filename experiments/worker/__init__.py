"""The worker: takes jobs from the durable queue for one device and runs them, one at a time."""
