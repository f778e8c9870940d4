"""Convert files that are not text for a model. Decoding runs in a separate process that can do nothing else."""
