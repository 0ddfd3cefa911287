"""Drafters: small models that guess the target's next tokens, which the target then verifies."""
