"""From an experiment's rows to a verdict, a finding and what a campaign came to."""
