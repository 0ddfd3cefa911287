"""Questions that one can ask of the graph, each a pure function of it and of what is passed in."""
