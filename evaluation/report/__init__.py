"""Pages to look at: runs, tokenizers and comparisons, each one HTML file that needs nothing else."""
