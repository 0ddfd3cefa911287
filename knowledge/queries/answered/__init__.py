"""What became of the questions that a campaign asks."""
