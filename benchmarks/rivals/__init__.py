"""Other ways to make a vocabulary, behind what `tokenizer.measures` measures."""
