"""What the workloads that run a whole language model have in common: the decoder, its training, and its text."""
