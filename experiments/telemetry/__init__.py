"""What devices do by the second: GPUs and the host, kept for ten minutes, averaged for longer."""
