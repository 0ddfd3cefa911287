"""What is measured: samples, launches, evidence, blocks, environment."""
