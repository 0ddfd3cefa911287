"""A server that hangs: how long it may give no token, and how that is told. Imports nothing."""

SILENT_LIMIT_S = 120.0
"""Seconds for which a server may give no token of any request: as long as prompts may take while nothing else
is decoded; judgement. On an H200 a kernel hung in blocks that take 5 to 10 s, and the limit of all requests
alone would have found it out after five to ten minutes."""

SILENT = "vLLM's HTTP server gave no token of any request"
"""What is said of one that gave none for that long, and begins the sentence."""
