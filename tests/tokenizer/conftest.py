import pytest

from tokenizer import Document, Tokenizer, train

SENTENCES = (
    "def encode(text):\n    return [ord(letter) for letter in text]\n",
    'for (int i = 0; i < 10; i++) {\r\n\tprintf("%d == %d\\n", i, i);\r\n}\r\n',
    "The quick brown fox doesn't jump over the lazy dog's 1234567 bones.\n\n\n",
    "aaaaaaaa aaaa aa a ======== ======     \t  Straße naïve 東京 🎉🎉",
)


@pytest.fixture(autouse=True)
def no_cache_of_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """tiktoken would keep ranks by their path, and give those of an earlier test."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")


@pytest.fixture(scope="session")
def documents() -> list[Document]:
    """Documents of 4 languages in 6 repositories."""
    return [
        Document(SENTENCES[n % 4] * (1 + n % 3), f"repository{n % 6}", f"language{n % 4}", f"file{n}")
        for n in range(24)
    ]


@pytest.fixture(scope="session")
def small_tokenizer(documents) -> Tokenizer:
    """380 tokens and 11 special ones."""
    return train(documents, vocab_size=391, priority="F")
