"""A trainer in a process of its own: python -m benchmarks.train_step_peers NAME FOLDER ...; told what to do by lines.

Each line on standard input is a number of steps; the answer is a JSON line with what they took and their losses. So
two processes live at once and take turns, and what else the machine does weighs on both alike.
"""

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.recipes import MODELS, make_state, open_recipe, random_batch

NUM_BATCHES = 4
OPTIMIZER = {
    "learning_rate": 1e-3,
    "schedule": "constant",
    "warmup_steps": 1,
    "beta1": 0.9,
    "beta2": 0.95,
    "weight_decay": 0.033,
    "clip_norm": 1.0,
    "z_loss": 0.0,
}
"""Settings of both sides; torch has no z-loss, so there is none."""


class Turn(NamedTuple):
    """What some steps took."""

    cpu: float  # seconds of all threads
    wall: float  # seconds
    memory: float  # MB: the most that the process has held
    losses: list[float]


class Shape(NamedTuple):
    """What is trained: a name of MODELS and a batch of rows x length."""

    model: str
    rows: int
    length: int


Step = Callable[[int], Any]
"""Take the step of that number; returns the loss, on which one can wait by `float`."""


def open_dyadlm(folder: Path, shape: Shape) -> Step:
    from dataservice import Bucket
    from model.huggingface import read_model
    from training.compilation import compile_train_steps
    from training.placement import place_step

    params, config = read_model(folder)
    tokens = shape.rows * shape.length
    vocab_size = len(params["embedding"])
    recipe = open_recipe(
        config, vocab_size, max_length=shape.length, tokens_per_step=tokens, cache=folder / "compiled", **OPTIMIZER
    )
    bucket = Bucket(shape.length, packed=False)
    compiled = compile_train_steps(recipe, [bucket], lambda *_, **__: None)[bucket]
    batches = [random_batch(vocab_size, shape.rows, shape.length, seed) for seed in range(NUM_BATCHES)]
    state = make_state(recipe, params)

    def step(number: int) -> Any:
        nonlocal state
        state, metrics = compiled.call(state, *place_step(recipe, bucket, batches[number % NUM_BATCHES], number))
        return metrics["loss"]

    return step


def open_torch(folder: Path, shape: Shape) -> Step:
    import torch  # pyright: ignore[reportMissingImports]
    from torch.nn.functional import cross_entropy  # pyright: ignore[reportMissingImports]
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").train()
    decayed = [p for name, p in model.named_parameters() if p.ndim > 1 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim == 1 or "embed" in name]
    groups = [{"params": decayed, "weight_decay": OPTIMIZER["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    betas = (OPTIMIZER["beta1"], OPTIMIZER["beta2"])
    optimizer = torch.optim.AdamW(groups, lr=OPTIMIZER["learning_rate"], betas=betas, eps=1e-8, fused=True)
    vocab_size = model.config.vocab_size
    drawn = [random_batch(vocab_size, shape.rows, shape.length, seed) for seed in range(NUM_BATCHES)]
    batches = [
        {name: torch.from_numpy(batch[name].astype("int64")) for name in ("inputs", "targets")} for batch in drawn
    ]

    def step(number: int) -> Any:
        batch = batches[number % NUM_BATCHES]
        for group in optimizer.param_groups:
            group["lr"] = OPTIMIZER["learning_rate"] if number else 0.0  # the warm-up of one step
        logits = model(input_ids=batch["inputs"], use_cache=False).logits
        loss = cross_entropy(logits.view(-1, vocab_size), batch["targets"].view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), OPTIMIZER["clip_norm"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


PEERS = {"DyadLM": open_dyadlm, "transformers + torch": open_torch}


def write_shared_model(folder: Path, name: str) -> None:
    """Write the weights that both sides start from, as a folder of Hugging Face transformers."""
    import jax

    import model as our_model
    from model.huggingface import write_model

    measured = MODELS[name]
    params = jax.jit(lambda key: our_model.init_params(measured.config, measured.vocab_size, key))(jax.random.key(0))
    write_model(folder, jax.device_get(params), measured.config, max_length=8192, dtype="float32")


def take_turn(step: Step, first: int, count: int) -> Turn:
    before, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    losses = [step(number) for number in range(first, first + count)]
    values = [float(loss) for loss in losses]
    wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Turn(cpu, wall, after.ru_maxrss * 1024 / 1e6, values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    # Before any library counts cores: XLA's pool has as many threads as the process has cores.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    answers, sys.stdout = sys.stdout, sys.stderr
    step = PEERS[options.peer](options.folder, Shape(options.model, options.rows, options.length))
    print("ready", file=answers, flush=True)
    taken = 0
    for line in sys.stdin:
        count = int(line)
        print(json.dumps(take_turn(step, taken, count)), file=answers, flush=True)
        taken += count


if __name__ == "__main__":
    main()
