"""A campaign as a report: everything it says, as one value read from the database."""
