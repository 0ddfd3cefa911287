"""Findings, their scope, and the graph that ties them to experiments."""
