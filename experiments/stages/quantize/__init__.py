"""Weight-only quantization: AWQ and plain rounding by llmcompressor, as a stage that writes a checkpoint."""
