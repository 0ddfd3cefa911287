"""Recipes: what to deploy of a campaign, and a check whether it still holds. See docs/recipe.md."""
