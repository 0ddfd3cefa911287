"""The campaign: propose, rank, dispatch, learn, and again, until the budget or what is worth doing ends."""
