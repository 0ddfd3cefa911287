"""Jobs on rented and remote machines: many in flight at once, each with a price before it is submitted."""
