"""Into the queue and out of it: drafts accepted, ranked, and dispatched as experiments."""
