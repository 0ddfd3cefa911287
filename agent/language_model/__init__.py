"""A language model that proposes: what it is told, how it is asked, and what becomes of its answer."""
