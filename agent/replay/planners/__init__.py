"""The planners that come with autoinfer, behind the port (agent/replay/port.py)."""
