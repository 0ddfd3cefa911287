"""Limits that settings and the parts that keep to them share."""

LOAD_LIMIT_S = 900.0
"""Most seconds until a launch of an engine is ready. A cold compilation of 12 layers takes 25-45 s on two
cores, a load by vLLM up to 136 s (FACTS §2); this leaves room for a deep model on a busy machine."""
