"""Coding agents as colleagues: the pages' queries and acts as tools of a server that speaks MCP."""
