"""Our models in lm-evaluation-harness (extra `eval`), by the name `dyadlm`.

lm_eval finds the models in its own registry alone, so whoever wants ours imports this module first, as
`python -m evaluation lm-eval` does. Every sequence begins with <eod>, as documents do in training; contexts that are
too long are cut from their left. Context and continuation are tokenised together and split as in `evaluation.choices`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from lm_eval.api.model import LM  # pyright: ignore[reportMissingImports]  (an extra)
from lm_eval.api.registry import register_model  # pyright: ignore[reportMissingImports]

import model
from evaluation.boundaries import find_boundaries
from evaluation.choices import encode_continuations
from evaluation.errors import EvaluationError
from evaluation.scoring import score
from evaluation.subject import open_subject
from evaluation.windows import score_in_windows
from tokenizer import show_progress

__all__ = ["DyadLM"]

MOST_NEW_TOKENS = 256
"""Of a text whose task does not say; that of lm_eval's own models."""

_LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
_SETTINGS = ("until", "do_sample", "temperature", "top_k", "top_p")


@register_model("dyadlm")
class DyadLM(LM):
    """A run, or a folder of transformers that `open_subject` opens.

    Args:
        run: The folder.
        step: A checkpoint of a run; the newest without it.
        rope_base: Another base of the rotary embedding.
        max_length: Most inputs of a sequence; without it the longest that the model was trained on.
        begin: Special token before every sequence; <eod>, or what config.json has.
        end: Special token that ends a text.
        batch_size: Prompts that are gone on with at once; scoring chooses its own batches.
        max_batch_size: Taken, and of no effect, as `device`: lm_eval gives it to every model.
        others: Refused.
    """

    def __init__(
        self,
        run: str | None = None,
        step: int | None = None,
        rope_base: float | None = None,
        max_length: int | None = None,
        begin: str | None = None,
        end: str | None = None,
        batch_size: int | str = 1,
        max_batch_size: int | None = None,
        device: str | None = None,
        **others: Any,
    ) -> None:
        super().__init__()
        if run is None or others:
            got = ", ".join(others) or "none"
            raise EvaluationError(
                f"model_args must be run=RUN and of step, rope_base, max_length, begin, end, got {got}; "
                "write --model_args run=RUN"
            )
        self.subject = open_subject(run, step=step, rope_base=rope_base)
        self.boundaries = find_boundaries(self.subject, begin, end)
        self.max_length = int(max_length or self.subject.max_length)
        self.batch_size = int(batch_size) if str(batch_size).isdigit() else 16

    @property
    def tokenizer_name(self) -> str:
        """What lm_eval's caches of requests tell tokenizers by."""
        return self.subject.tokenizer.fingerprint

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Log-probability in nats of each continuation, and whether all its tokens are the likeliest."""
        pairs = [request.args for request in requests]
        encoded = encode_continuations(
            self.subject.tokenizer,
            [context for context, _ in pairs],
            [[continuation] for _, continuation in pairs],
            self.boundaries.begin,
            self.max_length,
        )
        with show_progress() as progress:
            rows = score(
                self.subject,
                [one.sequences[0] for one in encoded],
                progress=lambda done, total: progress("score tokens", done, total),
            )
        return [
            (float(row.log_probs[one.first :].sum(dtype=np.float64)), bool(row.is_greedy[one.first :].all()))
            for row, one in zip(rows, encoded, strict=True)
        ]

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """Log-probability in nats of each whole text, in windows that overlap only at its end, as lm_eval asks for."""
        begin = [self.boundaries.begin]
        texts = [self.subject.tokenizer.encode(request.args[0]) for request in requests]
        sequences = [np.array(begin + ids, np.int64) for ids in texts]
        with show_progress() as progress:
            (scores,) = score_in_windows(
                self.subject,
                sequences,
                [(self.max_length, self.max_length)],
                lambda done, total: progress("score tokens", done, total),
            )
        return [float(log_probs.sum(dtype=np.float64)) for log_probs in scores]

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """The text that follows each prompt, up to the first of its stop texts, <eod> or the most new tokens."""
        by_settings: defaultdict[tuple, list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            by_settings[_read_settings(request.args[1])].append(number)
        texts = [""] * len(requests)
        done = 0
        with show_progress() as progress:
            for settings, numbers in by_settings.items():
                for start in range(0, len(numbers), self.batch_size):
                    batch = numbers[start : start + self.batch_size]
                    prompts = [requests[number].args[0] for number in batch]
                    for number, text in zip(batch, self._generate(prompts, batch, *settings), strict=True):
                        texts[number] = text
                    done += len(batch)
                    progress("generate texts", done, len(requests))
        return texts

    def _generate(
        self, prompts: list[str], seeds: list[int], until: tuple[str, ...], most: int, sampling: model.Sampling
    ) -> Iterator[str]:
        room = self.max_length - most
        if room < 1:
            raise EvaluationError(
                f"max_gen_toks must be below the model's {self.max_length:,} tokens, got {most:,}; give fewer with "
                "--gen_kwargs max_gen_toks=N"
            )
        encode, begin = self.subject.tokenizer.encode, self.boundaries.begin
        kept = [[begin, *ids[max(0, len(ids) - room + 1) :]] for ids in map(encode, prompts)]
        stops = {self.boundaries.end}
        drawn = model.generate_batch(
            self.subject.params, self.subject.config, kept, most, sampling, seeds=seeds, stop_ids=stops
        )
        for ids in drawn:
            yield _cut_at(self.subject.tokenizer.decode([token for token in ids if token not in stops]), until)


def _read_settings(given: Mapping[str, Any]) -> tuple[tuple[str, ...], int, model.Sampling]:
    """Stop texts, most new tokens, and how to draw: greedily unless do_sample is true, as lm_eval's own models do."""
    unknown = set(given) - {*_LIMITS, *_SETTINGS}
    if unknown:
        known = ", ".join((*_LIMITS, *_SETTINGS))
        raise EvaluationError(f"gen_kwargs must be among {known}, got {', '.join(sorted(unknown))}; leave it out")
    until = given.get("until") or ()
    stops = (until,) if isinstance(until, str) else tuple(until)
    most = next((int(given[name]) for name in _LIMITS if given.get(name) is not None), MOST_NEW_TOKENS)
    temperature = given.get("temperature", 1.0) if given.get("do_sample") else 0.0
    return stops, most, model.Sampling(temperature, given.get("top_k") or 0, given.get("top_p", 1.0)).check()


def _cut_at(text: str, stops: Sequence[str]) -> str:
    """The text before the first stop text in it.

    >>> _cut_at("one. two; three", (";", "."))
    'one'
    """
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else text
