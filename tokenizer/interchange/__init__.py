"""Other formats of byte-level BPE: Hugging Face, tiktoken."""
