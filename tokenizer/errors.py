"""What goes wrong in this package, as one tree.

Every message is one line: ``<thing> must be <expected>, got <value>; <how to mend>``.
"""

__all__ = ["CorpusError", "TokenizerError"]


class TokenizerError(ValueError):
    """A setting, an artefact or a text that the tokenizer cannot work with."""


class CorpusError(TokenizerError):
    """A source of documents that cannot be read; the message names file and row."""
