"""Where checkpoints come from: folders, and the Hugging Face hub by its cache."""
