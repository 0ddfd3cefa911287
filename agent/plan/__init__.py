"""What can be told of a campaign before anything is measured: memory, levers, time."""
