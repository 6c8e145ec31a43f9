"""What can be said of a vocabulary: measures of it, its history, and what becomes of it when it is pruned.

    tokenizer.measures.evaluate({"bpe": one, "sa-bpe": other}, documents).to_json()

reads documents (text, repository, language) once and measures every tokenizer on them.
"""

from tokenizer.measures.evaluation import Evaluation, evaluate
from tokenizer.measures.subject import Subject

__all__ = ["Evaluation", "Subject", "evaluate"]
