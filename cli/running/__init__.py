"""What `autoinfer run` and the other commands that measure are made of."""
