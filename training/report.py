"""What a run tells its user: the model at the start; the plot, the sample and the result at the end."""

import json
import math
from typing import Any

import jax

import model
from tokenizer import Tokenizer
from training.agreement import sum_over_processes
from training.config import Config
from training.errors import NonFiniteError
from training.heldout import count_targets, unigram_entropy
from training.loop import Loop
from training.optimizers.groups import describe_groups
from training.phases import Phases
from training.plots import plot_loss
from training.run import Run
from training.step import Recipe, State, evaluated_params
from training.summary import summary_table


def describe_model(recipe: Recipe) -> None:
    """Print the model's size, what decays, and what moves it."""
    print(f"model: {model.count_params(recipe.model, recipe.vocab_size):,} parameters")
    params = model.abstract_params(recipe.model, recipe.vocab_size)
    print("\n".join(describe_groups(recipe.optimizer_config, params)))


def close_run(
    run: Run, config: Config, state: State, loop: Loop, held_out: list[dict[str, Any]], tokenizer: Tokenizer
) -> None:
    """Sample, draw loss.png, log the closing row (what marks the run as finished) and print what was written.

    Raises:
        NonFiniteError: the last held-out loss is not finite; the run is not marked as finished.
    """
    final = next((row for row in reversed(loop.log.rows) if "held_out_loss" in row), {})
    check_held_out(run, final)
    sample = sample_text(config, state, tokenizer)
    entropy = unigram_entropy(sum_over_processes(count_targets(held_out, tokenizer.vocab_size))) if held_out else None
    closing: dict[str, Any] = {"step": loop.step, "tokens": loop.tokens, "seconds": loop.log.seconds}
    if final:
        closing |= {"held_out_loss": final["held_out_loss"], "unigram_entropy": entropy}
    if sample:
        closing["sample"] = sample
    if jax.process_index() == 0:
        plot_loss(loop.log.rows, run.plot, title=run.folder.name, unigram_entropy=entropy)
    loop.log.write(closing | {"finished": True})
    loop.log.close()
    print_result(run, closing, loop.num_steps)


def check_held_out(run: Run, row: dict[str, Any]) -> None:
    """Refuse to call a run finished whose weights are of no use, by its last row with a held-out loss, if any.

    Raises:
        NonFiniteError: the loss is not finite.
    """
    if not math.isfinite(loss := row.get("held_out_loss", 0.0)):
        raise NonFiniteError(
            f"held-out loss must be finite, got {loss} at step {row['step']} of {run.folder}; look at its rows in "
            "metrics.jsonl, delete the checkpoints from where it went wrong on and run the same command again, or "
            "start another run with a lower optimizer.learning_rate"
        )


def close_summary(run: Run, loop: Loop, phases: Phases) -> None:
    """Write summary.json and print the closing table: which buckets took which time, and what else did."""
    summary = loop.summary.as_json(phases.seconds())
    if loop.summary.first_step is None:
        return
    if jax.process_index() == 0:
        beside = run.summary.with_suffix(".json.tmp")
        beside.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        beside.replace(run.summary)
    print("\n".join(summary_table(summary)))


def sample_text(config: Config, state: State, tokenizer: Tokenizer) -> str:
    """train.sample_prompt and what the model goes on with; "" when no sample is asked for."""
    prompt = config.train.sample_prompt
    if not prompt or jax.process_count() > 1:
        return ""
    begin = tokenizer.special_tokens["<eod>"]
    ids = model.generate(
        evaluated_params(state),
        config.model,
        [begin, *tokenizer.encode(prompt)],
        max_new_tokens=config.train.sample_tokens,
        temperature=config.train.sample_temperature,
        top_k=40,
        seed=config.train.seed,
        stop_ids=(begin,),
    )
    return prompt + tokenizer.decode([id for id in ids if id != begin])


def print_result(run: Run, closing: dict[str, Any], num_steps: int) -> None:
    """Print the result and where everything lies."""
    if closing["step"] < num_steps:
        print(f"the documents ended before step {num_steps}; raise data.epochs to see them again")
    print(f"finished: {closing['step']} steps, {closing['tokens']:,} tokens, {closing['seconds']:.0f} s of training")
    if "held_out_loss" in closing:
        print(
            f"held-out loss {closing['held_out_loss']:.4f} nats per token; "
            f"unigram entropy of the same tokens {closing['unigram_entropy']:.4f}"
        )
    if "sample" in closing:
        print("sample:\n" + "\n".join("  | " + line for line in closing["sample"].splitlines()))
    print(f"wrote {run.folder}/: config.yaml tokenizer/ metrics.jsonl events.* checkpoints/ summary.json loss.png")
