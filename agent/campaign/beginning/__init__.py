"""A campaign before it begins: what it names and stands on is looked at, then it is written down."""
