"""Tables: every configuration of a grid measured, for planners to be tried on (docs/tables.md)."""
