"""The event stream: one reader of the event table, many viewers."""
