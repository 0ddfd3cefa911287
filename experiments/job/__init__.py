"""A job: what an executor runs in a process group of its own."""
