"""What is asked of models over long contexts, and how often."""

from dataclasses import dataclass
from typing import Literal

from evaluation.errors import EvaluationError

__all__ = ["QUESTION_TASKS", "TASKS", "LongContextConfig"]

QUESTION_TASKS = ("needle", "keys", "documents")
"""Tasks that ask something and have a right answer."""
TOKENS_PER_DOCUMENT = 64
TASKS = (*QUESTION_TASKS, "repetition", "loss")


@dataclass(frozen=True, kw_only=True)
class LongContextConfig:
    """Settings of the long-context tasks; with the seed they decide every question."""

    task: tuple[str, ...] = ("all",)
    """What to measure. needle: a fact planted in documents. keys: one of many keys and their values. documents: a
    question that one of several documents answers. repetition: a passage that comes again. loss: the end of a document
    under more and more of it. all: all of these."""
    lengths: tuple[int, ...] = (256, 512, 1024)
    """Contexts, in tokens of the model: what is read and the longest answer fill them exactly. Those over the length
    that a model was trained on are marked *."""
    depths: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    """Where what is asked for stands: 0 at the beginning of the context, 1 at its end."""
    samples: int = 20
    """Questions for each length and depth."""
    seed: int = 0
    """Another seed asks other questions."""
    choices: int = 4
    """Answers to choose from, one of them right: 1 / choices is chance."""
    form: Literal["code", "prose"] = "code"
    """How the needle is written: amber_falcon = 48213, or The secret number of amber falcon is 48213."""
    digits: int = 5
    """Digits of the numbers that needle and keys ask for."""
    documents_per_question: int = 8
    """Most documents of a question in the task documents: a context has one for each 64 of its tokens, but as many as
    there are choices."""
    questions: Literal["lines", "definitions"] = "lines"
    """What the task documents asks. lines: the line that follows a given one. definitions: what the document of a given
    path defines (functions, classes and the like)."""
    passage: int = 32
    """Tokens of the passage that comes again, and of the end of a document whose loss is taken."""

    def __post_init__(self) -> None:
        for name in self.task:
            _require(name in (*TASKS, "all"), "task", f"{', '.join(TASKS)} or all", name, "separate several by commas")
        for name in ("task", "lengths", "depths"):
            value = getattr(self, name)
            mend = f"choose with --{name}"
            _require(len(value) > 0 and len(set(value)) == len(value), name, "one or more, each once", value, mend)
        for length in self.lengths:
            _require(length >= 16, "lengths", "16 tokens or more", length, "512,1024,2048 are three")
        for depth in self.depths:
            _require(0 <= depth <= 1, "depths", "from 0 (beginning) to 1 (end)", depth, "0,0.5,1 are three")
        for name, least in (
            ("samples", 1),
            ("choices", 2),
            ("digits", 2),
            ("documents_per_question", 2),
            ("passage", 4),
        ):
            value = getattr(self, name)
            _require(value >= least, name, f"{least} or more", value, f"set --{name.replace('_', '-')}")
        _require(self.digits <= 12, "digits", "12 or fewer", self.digits, "set --digits")
        most = 9 * 10 ** (self.digits - 1)
        _require(self.choices <= most, "choices", f"at most {most:,}", self.choices, "set --choices or more --digits")

    def num_documents(self, length: int) -> int:
        """Documents of a question in a context."""
        return max(self.choices, min(self.documents_per_question, length // TOKENS_PER_DOCUMENT))

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks asked for, in the order of TASKS."""
        return TASKS if "all" in self.task else tuple(name for name in TASKS if name in self.task)


def _require(valid: bool, name: str, expected: str, value: object, mend: str) -> None:
    if not valid:
        shown = ",".join(map(str, value)) or "none" if isinstance(value, tuple) else value
        raise EvaluationError(f"{name} must be {expected}, got {shown}; {mend}")
