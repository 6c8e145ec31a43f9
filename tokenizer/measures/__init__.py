"""What can be said of a vocabulary: measures of it, its history, and what becomes of it when it is pruned."""
