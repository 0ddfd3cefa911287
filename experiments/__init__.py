"""The configuration space, stages, artifacts, engines, executors and measurement."""
