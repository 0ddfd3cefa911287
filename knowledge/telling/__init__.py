"""A campaign in words a person reads: its story, its summary, its answers."""
