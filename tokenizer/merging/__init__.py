"""Training: pairs of tokens merged in exact batches, by frequency, repositories and languages."""
