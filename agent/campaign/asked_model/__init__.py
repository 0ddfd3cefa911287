"""A campaign's language model: what it is told, asked and answers."""
