"""BoundlessBPE (arXiv 2504.00178) from a checkout of github.com/kensho-technologies/boundlessbpe."""

import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokenizer import Document
from tokenizer.ragged import offsets_of
from tokenizer.splitting.patterns import PATTERNS

__all__ = ["BoundlessSubject", "train_boundless_bpe"]

TAU = 0.9  # tokens are removed as by PickyBPE, at the threshold of its documentation


class BoundlessSubject:
    """Its model; texts are encoded one at a time."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.token_bytes = [model.inv_vocab[number] for number in range(len(model.inv_vocab))]

    def encode_batch(self, texts: Sequence[str], /) -> tuple[np.ndarray, np.ndarray]:
        rows = []
        for number, text in enumerate(texts, 1):
            rows.append(np.array(self._model.encode_ordinary(text), np.int64))
            print(f"encoded {number} of {len(texts)} texts", file=sys.stderr, end="\r", flush=True)
        return np.concatenate(rows), offsets_of(np.array([len(row) for row in rows]))


def train_boundless_bpe(documents: Sequence[Document], vocab_size: int, folder: Path) -> BoundlessSubject:
    sys.path.insert(0, str(folder))
    from boundlessbpe.boundlessbpeinference import FasterRegexInference  # pyright: ignore[reportMissingImports]
    from boundlessbpe.boundlessbpetrain import FasterHalfDirectRegexTokenizer  # pyright: ignore[reportMissingImports]

    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        lines = [json.dumps({"text": document.text}) + "\n" for document in documents]
        Path(place, "text.jsonl").write_text("".join(lines), encoding="utf-8")
        trainer = FasterHalfDirectRegexTokenizer(TAU, pattern=PATTERNS["gpt4"])
        trainer.train(
            filepath=f"{place}/text.jsonl",
            outprefix=f"{place}/model",
            num_lines=len(documents),
            vocab_size=vocab_size,
            recalc=1_000_000,  # its own checks of its counts, which take longer than the merges
            blowup=True,
            verbose=False,
        )
        trainer.save(f"{place}/model")
        model = FasterRegexInference()
        model.load(f"{place}/model.model")
        return BoundlessSubject(model)
