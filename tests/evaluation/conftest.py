"""Small models to evaluate, with weights drawn at random."""

import jax
import pytest

import model
import tokenizer as tokenizers
from evaluation.subject import Subject
from model import LlamaConfig

CONFIG = LlamaConfig(num_layers=2, dim=32, num_heads=4, num_kv_heads=2, hidden_dim=64, dtype="float32")
TEXT = "def alpha(beta):\n    return 'é' * 12\n"


@pytest.fixture(scope="session")
def tokenizer():
    documents = [(TEXT * 3, "a", "python"), ("let gamma = alpha(7);\n" * 4, "b", "js")]
    return tokenizers.train(documents, vocab_size=290, priority="F")


@pytest.fixture(scope="session")
def subject(tokenizer, tmp_path_factory) -> Subject:
    params = model.init_params(CONFIG, tokenizer.vocab_size, jax.random.key(5))
    return Subject(params, CONFIG, tokenizer, 64, tmp_path_factory.mktemp("model"), None)
