"""The packaged reference model: a small trained hybrid of Qwen3.5's architecture, and its recipe."""
