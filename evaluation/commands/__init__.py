"""The commands of `python -m evaluation`, a module each: `add` makes its options, `run` does the work."""
