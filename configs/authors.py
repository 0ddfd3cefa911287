"""Who wrote something down, in words: a coding agent is known by its token's name; what it calls itself
is its own word, told as such."""

from __future__ import annotations

COLLEAGUE = "mcp:"
"""What the names of coding agents begin with that write through `autoinfer mcp`. What follows is the name
that the client gave itself: a mark, and no proof."""

BY_TOKEN = f"{COLLEAGUE}token:"
"""What the names of those begin with that sent a token which the user gave a name; that name follows. No
client can call itself so: a colon is taken out of its name."""


def author_words(author: str) -> str:
    """The author as a page shows it; of a coding agent which token it has, or that it says who it is."""
    if author.startswith(BY_TOKEN):
        return f"the agent with the token {author.removeprefix(BY_TOKEN)}"
    if not author.startswith(COLLEAGUE):
        return author
    return f"an agent that says it is {author.removeprefix(COLLEAGUE)}"
