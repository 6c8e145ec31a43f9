"""What the data service raises when a user's input, store or machine is not as it must be."""

__all__ = ["DataError", "IngestError", "StoreError", "WaitCancelledError"]


class DataError(ValueError):
    """Anything a user can mend: one line that says what must hold, what was found and what to do."""


class StoreError(DataError):
    """A store that is damaged, of another tokenizer, of other settings, or in use by another writer."""


class IngestError(DataError):
    """Preparing documents failed or ended before the store was complete."""


class WaitCancelledError(IngestError):
    """Whoever waited for shards in the making was told not to."""
