"""Read-only queries that return typed views: what the command line prints and the pages show.

Each function takes an open read session, runs a fixed number of statements whatever the number of rows, and
returns frozen pydantic models whose field names are stable: they are the JSON of `--json` and of the pages'
JSON twins.
"""
