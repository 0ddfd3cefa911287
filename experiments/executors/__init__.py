"""Executors run a job somewhere; found by entry points."""
