"""How it is known that rows of a batch do not see each other: proved on the graph, measured, or checked."""
