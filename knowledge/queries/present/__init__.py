"""What a campaign does at this moment and what it came to so far."""
