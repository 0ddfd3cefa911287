"""vLLM as an engine: a driver process in vLLM's own environment (docs/vllm.md)."""
