"""What comes next and why: the desk, what lies on it, and the choice."""
