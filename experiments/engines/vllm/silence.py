"""A server that hangs: how long it may give no token, and how that is told. Imports nothing."""

SILENT_LIMIT_S = 180.0
"""Seconds for which a server that has given tokens may give none of any request: longer than prompts take
while nothing else is decoded, and than first calls of a kernel compile (113 s were seen); judgement. On an
H200 a kernel hung in blocks that take 5 to 10 s, and the limit of all requests alone would have found it out
after five to ten minutes."""

FIRST_LIMIT_S = 300.0
"""Seconds within which a server must give its first token: what one request may take, for it may compile
first. Without it a server that never answers would be found out when all requests that follow each other
might have ended."""

SILENT = "vLLM's HTTP server gave no token of any request"
"""What is said of one that gave none for that long, and begins the sentence."""
