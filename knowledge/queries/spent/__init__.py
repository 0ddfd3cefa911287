"""What was spent, of time and of dollars, and what stopping early saved."""
