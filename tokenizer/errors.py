"""What goes wrong in this package, as one tree.

Every message is one line: ``<thing> must be <expected>, got <value>; <how to mend>``.
"""

__all__ = ["CorpusError", "SourceError", "TokenizerError"]


class TokenizerError(ValueError):
    """A setting, an artefact or a text that the tokenizer cannot work with."""


class CorpusError(TokenizerError):
    """A source of documents that cannot be read; the message names file and row."""


class SourceError(CorpusError):
    """A source that does not answer, is gone or has changed since it was listed.

    ``on_error="skip"`` never leaves this out: which documents there are must not depend on the network.
    """
