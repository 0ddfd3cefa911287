"""Tasks of lm-eval: their items, answered by a launch, scored in lm-eval's own Python."""
