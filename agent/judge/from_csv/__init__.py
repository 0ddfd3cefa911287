"""A table of times, read from a CSV and judged by itself: latency alone, without a campaign."""
