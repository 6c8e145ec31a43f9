"""What models make of distant context: facts planted in documents at hand and asked for, passages that come again."""

from evaluation.longcontext.settings import TASKS, LongContextConfig

__all__ = ["TASKS", "LongContextConfig"]
