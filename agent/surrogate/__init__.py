"""The surrogate: beliefs about configurations that were not measured yet."""
