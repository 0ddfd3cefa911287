"""Who proposed a hypothesis, in the words of pages and answers. Pure."""

from __future__ import annotations

from configs.authors import COLLEAGUE, author_words

PROPOSERS = {
    "user": "you",
    "optuna": "the optimizer",
    "llm": "a language model",
    "questions": "the campaign",
    "promotion": "what was found here",
    "profile": "the profile",
    "roofline": "the roofline",
    "neighbours": "the neighbours of the best",
    "recombination": "what was supported apart",
    "carried": "the best of another campaign",
    "separation": "a confounded test",
}


def proposer_words(name: str) -> str:
    """What stands behind "from": a coding agent by the name it gave, one of ours by what it is."""
    if name == "rules" or name.startswith(COLLEAGUE):
        return author_words(name)
    return PROPOSERS.get(name, f"the {name}")
