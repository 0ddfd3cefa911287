"""What a user asks of a campaign, answered from its desk: why not, what if, what is untested, a preview.

Reads, writes nothing; the loop knows nothing of it. What the graph alone can tell is `knowledge.asking`.
"""
