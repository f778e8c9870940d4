"""What is not text, made fit for a model. The decoding happens in a process of its own, which can do nothing else."""
