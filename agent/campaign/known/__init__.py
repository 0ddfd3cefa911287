"""What a campaign knows: its facts, what others found before it, and where both are stored."""
