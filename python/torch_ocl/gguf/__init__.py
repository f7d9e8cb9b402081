"""Models in GGUF files."""
