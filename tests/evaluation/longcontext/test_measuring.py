"""Tasks that cannot be asked are told with what would do instead."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from evaluation import EvaluationError
from evaluation.longcontext import LongContextConfig
from evaluation.longcontext.measuring import make_tasks


def make(config: LongContextConfig, tokenizer, documents):
    subject: Any = SimpleNamespace(tokenizer=tokenizer)
    return make_tasks(config, subject, documents, tokenizer.special_tokens["<eod>"], lambda *told: None)


@pytest.mark.parametrize(
    ("length", "task"), [(64, "documents"), (48, "keys"), (16, "needle"), (40, "repetition"), (20, "loss")]
)
def test_a_length_that_is_too_short_names_one_that_would_do_and_the_tasks_that_fit(tokenizer, documents, length, task):
    other, passage = ("loss", 4) if task == "needle" else ("needle", 32)
    config = LongContextConfig(lengths=(length,), depths=(0.0, 1.0), samples=2, task=(other, task), passage=passage)
    with pytest.raises(EvaluationError) as caught:
        make(config, tokenizer, documents)
    said = str(caught.value)
    found = re.search(rf"; --lengths (\d+) would do for the task {task}; --task (\w+) leaves {task} out", said)
    assert found and "\n" not in said
    assert make(replace(config, task=(task,), lengths=(int(found[1]),)), tokenizer, documents)
    assert found[2] == other


def test_where_no_length_would_do_none_is_named(tokenizer, documents):
    config = LongContextConfig(lengths=(100_000,), task=("loss",))
    with pytest.raises(EvaluationError) as caught:
        make(config, tokenizer, documents)
    assert "would do" not in str(caught.value) and "leaves" not in str(caught.value)
