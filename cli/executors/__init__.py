"""Executors that a command names: made from settings, asked for prices, given workers."""
