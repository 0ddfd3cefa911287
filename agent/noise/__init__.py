"""A/A series: a target's noise profile measured on purpose, pair by pair, and what it says of the judge."""
