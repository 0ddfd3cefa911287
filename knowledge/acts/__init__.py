"""What the user does to a campaign: directives, approvals, budgets and notes, each with its event."""
