"""The campaign loop and its pure parts: proposers, surrogate, ranking, judge."""
