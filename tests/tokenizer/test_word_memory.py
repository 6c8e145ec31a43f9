import pickle
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tokenizer.encoding import encoder as encoding
from tokenizer.encoding import word_memory


@pytest.fixture
def texts():
    """Mostly words that no other text has, so that threads learn all the time, and many that all have."""
    rng = random.Random(3)
    own = [" ".join("".join(rng.choices("abcdef", k=rng.randint(1, 70))) for _ in range(60)) for _ in range(120)]
    return [f"def function {text} return\n" for text in own]


def test_threads_that_learn_at_once_give_the_ids_of_one(small_tokenizer, texts, monkeypatch):
    expected = small_tokenizer.encode_batch(texts)
    monkeypatch.setattr(encoding, "GROUP_CHARACTERS", 3000)
    monkeypatch.setattr(encoding, "BLOCK_CHARACTERS", 1000)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            anew = pickle.loads(pickle.dumps(small_tokenizer))
            for ours, theirs in zip(anew.encode_batch(texts, threads=6), expected, strict=True):
                np.testing.assert_array_equal(ours, theirs)
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("place", ["encode_words", "take_rows"])
def test_an_encoder_that_was_interrupted_encodes_again(small_tokenizer, texts, monkeypatch, place):
    expected = small_tokenizer.encode_batch(texts)
    anew = pickle.loads(pickle.dumps(small_tokenizer))

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(word_memory, place, interrupt)
        with pytest.raises(KeyboardInterrupt):
            anew.encode_batch(texts)
    for ours, theirs in zip(anew.encode_batch(texts), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_no_thread_waits_for_words_that_another_failed_to_encode(small_tokenizer, texts, monkeypatch):
    anew = pickle.loads(pickle.dumps(small_tokenizer))

    def fail(*arguments, **options):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(word_memory, "encode_words", fail)
        with ThreadPoolExecutor(4) as pool:
            encodings = [pool.submit(anew.encode_batch, texts) for _ in range(8)]
        assert all(isinstance(encoding.exception(), MemoryError | RuntimeError) for encoding in encodings)
    np.testing.assert_array_equal(anew.encode_batch(texts)[0], small_tokenizer.encode_batch(texts)[0])
