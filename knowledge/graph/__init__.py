"""The graph that ties models, hardware, knobs, hypotheses, experiments and findings together."""
