"""The content-addressed store of what stages build."""
