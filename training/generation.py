"""`python -m training generate`: go on with one text as it is drawn, or with many in batches."""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.errors import TrainingError

if TYPE_CHECKING:
    from tokenizer import Tokenizer
    from training.weights import Weights

__all__ = ["read_prompts", "run_generate"]


def run_generate(arguments: argparse.Namespace) -> int:
    """Print a text and what follows, or a JSON line for each of several prompts."""
    from tokenizer.output import check_output_file, write_file
    from training.weights import open_run, read_weights

    entries: list[dict[str, Any]] = [{"prompt": text} for text in arguments.prompt]
    if arguments.prompts_file is not None:
        entries += read_prompts(Path(arguments.prompts_file))
    if not entries:
        raise TrainingError("prompt must be given, got none; set --prompt TEXT or --prompts-file FILE")
    output = None if arguments.output is None else Path(arguments.output)
    if output is not None:
        check_output_file(output, [arguments.prompts_file] if arguments.prompts_file is not None else [])
    # What can be wrong is told before the weights, which may be large, are read.
    _sampling(arguments).check()
    _, tokenizer = open_run(Path(arguments.run_folder))
    _check_special_tokens(tokenizer, (arguments.begin, *arguments.stop))
    weights = read_weights(Path(arguments.run_folder), arguments.step)
    if len(entries) == 1 and arguments.prompts_file is None and output is None:
        _print_text(weights, entries[0]["prompt"], arguments)
        return 0
    lines = (json.dumps(entry, ensure_ascii=False) + "\n" for entry in _complete(weights, entries, arguments))
    if output is None:
        for line in lines:
            print(line, end="", flush=True)
    else:
        write_file(output, "".join(lines).encode())
        print(f"wrote {output}: {len(entries):,} completions by step {weights.step} of {arguments.run_folder}")
    return 0


def read_prompts(path: Path) -> list[dict[str, Any]]:
    """The prompts of a file of JSON lines: strings, or objects with a "prompt", whose other keys are kept.

    Raises:
        TrainingError: names the first line that is neither.
    """
    entries = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        entry = {"prompt": entry} if isinstance(entry, str) else entry
        if not isinstance(entry, dict) or not isinstance(entry.get("prompt"), str):
            shown = line[:40].decode(errors="replace")
            raise TrainingError(
                f'{path}:{number}: prompt must be a JSON string or an object with "prompt", got {shown}; '
                'write one a line, such as "def "'
            )
        entries.append(entry)
    return entries


def _check_special_tokens(tokenizer: "Tokenizer", names: Sequence[str]) -> None:
    special = tokenizer.special_tokens
    for name in names:
        if name not in special:
            known = ", ".join(special) or "none"
            raise TrainingError(f"--begin and --stop must be special tokens of the run ({known}), got {name!r}")


def _print_text(weights: "Weights", prompt: str, arguments: argparse.Namespace) -> None:
    """Print a prompt and each token that follows as soon as it is drawn."""
    import model
    from tokenizer import StreamingDecoder

    stops, sampling = _stop_ids(weights, arguments), _sampling(arguments)
    decoder = StreamingDecoder(weights.tokenizer)
    ids, most = _prompt_ids(weights, prompt, arguments), arguments.max_new_tokens
    print(prompt, end="", flush=True)
    for token in model.stream(
        weights.params, weights.config.model, ids, most, sampling, seed=arguments.seed, stop_ids=stops
    ):
        if token not in stops:
            print(decoder.feed([token]), end="", flush=True)
    print(decoder.finish())


def _complete(
    weights: "Weights", entries: Sequence[dict[str, Any]], arguments: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """The entries, each with its "completion"; the seed of the i-th is --seed + i."""
    import model

    stops, sampling = _stop_ids(weights, arguments), _sampling(arguments)
    for start in range(0, len(entries), arguments.batch_size):
        batch = entries[start : start + arguments.batch_size]
        first_seed = arguments.seed + start
        drawn = model.generate_batch(
            weights.params,
            weights.config.model,
            [_prompt_ids(weights, entry["prompt"], arguments) for entry in batch],
            arguments.max_new_tokens,
            sampling,
            seeds=range(first_seed, first_seed + len(batch)),
            stop_ids=stops,
        )
        for entry, ids in zip(batch, drawn, strict=True):
            yield entry | {"completion": weights.tokenizer.decode([token for token in ids if token not in stops])}


def _prompt_ids(weights: "Weights", prompt: str, arguments: argparse.Namespace) -> list[int]:
    return [weights.tokenizer.special_tokens[arguments.begin], *weights.tokenizer.encode(prompt)]


def _stop_ids(weights: "Weights", arguments: argparse.Namespace) -> set[int]:
    return {weights.tokenizer.special_tokens[name] for name in arguments.stop}


def _sampling(arguments: argparse.Namespace) -> Any:
    import model

    return model.Sampling(arguments.temperature, arguments.top_k, arguments.top_p)
