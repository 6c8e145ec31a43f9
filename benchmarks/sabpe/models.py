"""Small Llamas, one for each vocabulary and seed: their data, their commands, and both taken to their end.

As in the paper a tokenizer learns from a sample. There it is 0.25% of what models are trained on; here it is a quarter
of the repositories, and models are trained on documents of the others, since at this size the sample would be a large
part of what they see. Both arms of a seed have the same documents, byte for byte, with 1% of prompts for repetition,
without which a small model cannot copy, and would fail for every token.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.document_table import write_documents
from benchmarks.processes import ROOT, require_success, run_logged
from benchmarks.sabpe.documents import draw_documents, of_repositories, split_repositories
from benchmarks.sabpe.model_outcomes import ModelOutcome, read_outcome
from benchmarks.sabpe.scales import MAIN, PLAIN, Scale
from benchmarks.tokenizer_priorities import Setting, make_tokenizer
from tokenizer import Document, Progress, Tokenizer, TokenizerConfig
from tokenizer.output import write_file

__all__ = [
    "ARMS",
    "Job",
    "base_config",
    "commands_of",
    "is_done",
    "make_data",
    "model_jobs",
    "outcome_of",
    "outcomes_of",
    "run_jobs",
]

ARMS: dict[str, Setting] = {"plain": PLAIN, "sabpe": MAIN}
SAMPLE = 0.25
"""Of the repositories, which tokenizers learn from."""
REPETITION = 0.01
"""Bytes of prompts for repetition over those of documents."""
BASE = "base.yaml"
OUTCOME = "undertrained.json"


class Job(NamedTuple):
    """A model."""

    arm: str
    seed: int

    def data(self, output: Path) -> Path:
        """Of the seed: documents.parquet, and for each arm a tokenizer and a store."""
        return output / "models" / f"seed-{self.seed}"

    def folder(self, output: Path) -> Path:
        """Of the run."""
        return output / "runs" / f"seed-{self.seed}" / self.arm


def model_jobs(scale: Scale) -> list[Job]:
    """Both arms of a seed before the next, so that what there is can be compared at any time."""
    return [Job(arm, seed) for seed in range(scale.seeds) for arm in ARMS] if "models" in scale.parts else []


def make_data(
    jobs: list[Job], scale: Scale, read: Callable[[], list[Document]], output: Path, progress: Progress
) -> None:
    """Make what is missing of documents, tokenizers and stores; documents are read only if they are needed."""
    missing = [job for job in jobs if not (_store(job, output) / "manifest.json").exists()]
    documents = read() if missing else []
    for seed in dict.fromkeys(job.seed for job in missing):
        chosen, others = split_repositories(documents, seed, SAMPLE)
        sample = of_repositories(documents, chosen)
        own = [job for job in missing if job.seed == seed]
        table = own[0].data(output) / "documents.parquet"
        if not table.exists():
            drawn = draw_documents(of_repositories(documents, others), scale.model_bytes, seed)
            write_documents(table, [*drawn, *repetitions(drawn, seed)])
        _make_tokenizers(own, scale, sample, output)
        for job in own:
            _make_store(table, job, output, progress)
    # JSON is YAML.
    write_file(output / BASE, (json.dumps(base_config(scale), indent=1) + "\n").encode())


def repetitions(documents: list[Document], seed: int) -> Iterator[Document]:
    """Documents that teach to copy, 1% of the bytes of others, made of their words."""
    from evaluation.undertrained import repetition_documents

    texts = [document.text for document in documents]
    left = REPETITION * sum(len(text.encode()) for text in texts)
    # A document has more than 30 bytes.
    for number, text in enumerate(repetition_documents(texts, TokenizerConfig().pattern, int(left // 30) + 1, seed)):
        if left <= 0:
            return
        left -= len(text.encode())
        yield Document(text, "repetition", "repetition", str(number))


def base_config(scale: Scale) -> dict[str, Any]:
    """What DIR/base.yaml says: everything that all models share."""
    steps = int(scale.model_bytes / 4 / scale.tokens_per_step)
    return {
        "model": scale.model,
        "data": {"min_length": 64, "max_length": scale.max_length, "tokens_per_step": scale.tokens_per_step},
        "optimizer": {"warmup_steps": max(1, steps // 10), "learning_rate": scale.learning_rate},
        "train": {
            "log_every": 10,
            "evaluate_batches": 0,
            "checkpoint_every": max(1, steps // 8),
            "keep_checkpoints": 1,
            "tensorboard": False,
        },
    }


def commands_of(job: Job, scale: Scale, output: Path) -> list[list[str]]:
    """Training over the store once, then under-trained tokens; both to be run in the root of the repository."""
    run, store = job.folder(output), _store(job, output)
    settings = {"data.store": store, "data.seed": job.seed, "train.seed": job.seed, "train.run": run}
    pairs = [f"{name}={value}" for name, value in settings.items()]
    train = [sys.executable, str(ROOT / "train.py"), str(output / BASE), *pairs, *scale.overrides]
    words = [str(run), "--store", str(store), "--json", str(run / OUTCOME)]
    return [train, [sys.executable, "-m", "evaluation", "undertrained", *words]]


def is_done(job: Job, output: Path) -> bool:
    """Whether the model is trained and its tokens were asked for."""
    return (job.folder(output) / OUTCOME).exists()


def run_jobs(jobs: list[Job], scale: Scale, output: Path, tell: Callable[[str], None]) -> None:
    """Train and ask what is not done; what processes say goes to RUN.log.

    Raises:
        ProcessFailedError: a process failed; one that was stopped by Ctrl-C, too.
    """
    from training.run import Run

    left = [job for job in jobs if not is_done(job, output)]
    for number, job in enumerate(left, 1):
        tell(f"{number} of {len(left)} models to do: {job.arm}, seed {job.seed}")
        folder = job.folder(output)
        folder.parent.mkdir(parents=True, exist_ok=True)
        log = folder.with_suffix(".log")
        train, ask = commands_of(job, scale, output)
        for command in [ask] if Run(folder).finished_row(None) else [train, ask]:
            require_success(run_logged(command, log), command, log)


def outcomes_of(jobs: list[Job], output: Path) -> list[dict[str, ModelOutcome]]:
    """Of every seed that has any: outcomes by arm."""
    seeds: dict[int, dict[str, ModelOutcome]] = {}
    for job in jobs:
        if is_done(job, output):
            seeds.setdefault(job.seed, {})[job.arm] = outcome_of(job, output)
    return list(seeds.values())


def outcome_of(job: Job, output: Path) -> ModelOutcome:
    """Of a job that is done."""
    return read_outcome(job.folder(output) / OUTCOME)


def _store(job: Job, output: Path) -> Path:
    return job.data(output) / f"{job.arm}-store"


def _make_tokenizers(jobs: list[Job], scale: Scale, sample: list[Document], output: Path) -> None:
    from tokenizer.counting.counts import count_words

    missing = [job for job in jobs if not (job.data(output) / job.arm / "tokenizer.json").exists()]
    if missing:
        config = TokenizerConfig(vocab_size=scale.model_vocab_size)
        counts = count_words(sample, config.pattern)
        for job in missing:
            make_tokenizer(counts, ARMS[job.arm], config).save(job.data(output) / job.arm)


def _make_store(table: Path, job: Job, output: Path, progress: Progress) -> None:
    from dataservice import prepare
    from tokenizer.corpus import CorpusConfig

    place = _store(job, output)
    beside = place.with_name(f".{place.name}")
    shutil.rmtree(beside, ignore_errors=True)
    trained = Tokenizer.load(job.data(output) / job.arm)
    prepare(CorpusConfig(paths=(str(table),), shard_bytes=1 << 30), trained, beside, workers=1, progress=progress)
    beside.rename(place)
