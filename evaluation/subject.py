"""What is evaluated: a run of ours or a folder of Hugging Face transformers, opened the same way."""

import dataclasses
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from evaluation.errors import EvaluationError
from model import LlamaConfig
from tokenizer import Tokenizer

__all__ = ["Subject", "open_subject"]


class Subject(NamedTuple):
    """A model with its tokenizer."""

    params: dict[str, Any]
    """Nested dict of float32 arrays, on the default device; embeddings may have more rows than there are tokens."""
    config: LlamaConfig
    tokenizer: Tokenizer
    max_length: int
    """Tokens of the longest sequences that it was trained on (of a Hugging Face folder: `max_position_embeddings`)."""
    place: Path
    step: int | None
    """Steps that it was trained for; None where nobody says."""

    @property
    def name(self) -> str:
        """How tables and plots call it."""
        return self.place.name if self.step is None else f"{self.place.name}, step {self.step:,}"


def open_subject(place: str | Path, *, step: int | None = None, rope_base: float | None = None) -> Subject:
    """Open a run folder (the newest checkpoint, or that of `step`) or a folder with config.json and safetensors.

    Args:
        place: The folder.
        step: A checkpoint of a run.
        rope_base: Replaces the base of the rotary embedding that the model was trained with.

    Raises:
        EvaluationError: the folder is neither, or has no such checkpoint or base.
        TrainingError, ModelError, TokenizerError: what is in it is damaged or not a Llama with byte-level BPE.
    """
    from training.weights import is_run, name_run_of

    place = Path(place)
    if is_run(place):
        subject = _open_run(place, step)
    elif (place / "config.json").is_file():
        if step is not None:
            raise EvaluationError(f"step must be left out for a folder of transformers, got {step} for {place}")
        subject = _open_folder(place)
    else:
        raise EvaluationError(
            f"model must be a run (config.yaml, tokenizer/) or a folder of transformers (config.json), got {place}; "
            f"{name_run_of(place)}"
        )
    if rope_base is None:
        return subject
    if not rope_base > 1:
        raise EvaluationError(f"rope_base must be above 1, got {rope_base}; 500000 is that of Llama 3")
    return subject._replace(config=dataclasses.replace(subject.config, rope_base=float(rope_base)))


def _open_run(place: Path, step: int | None) -> Subject:
    from training.weights import read_weights

    weights = read_weights(place, step)
    data = weights.config.data
    return Subject(weights.params, weights.config.model, weights.tokenizer, data.max_length, place, weights.step)


def _open_folder(place: Path) -> Subject:
    from model.huggingface import read_model

    params, config = read_model(place)
    tokenizer = Tokenizer.from_huggingface(place)
    rows = params["embedding"].shape[0]
    if rows < tokenizer.vocab_size:
        raise EvaluationError(
            f"embedding must have a row for each of {tokenizer.vocab_size:,} tokens, got {rows:,} in {place}; take "
            "weights and tokenizer of one model"
        )
    content = json.loads((place / "config.json").read_text(encoding="utf-8"))
    max_length = int(content.get("max_position_embeddings", 2048))
    return Subject(jax.tree.map(jnp.asarray, params), config, tokenizer, max_length, place, None)
