"""The reference engine: PyTorch + transformers, one process a launch, batch 1, greedy."""
