"""The loss that train.py reports of held-out documents: the same rows, steps and sums, for a checkpoint of a run."""

import dataclasses

import jax
import numpy as np

import dataservice
import model
from evaluation.errors import EvaluationError
from evaluation.subject import Subject
from tokenizer import Progress
from training import data
from training.compilation import compile_evaluation_steps, replicated
from training.heldout import evaluate_batches
from training.step import abstract_state, make_recipe
from training.weights import is_run, open_run

__all__ = ["held_out_rows"]


def held_out_rows(subject: Subject, progress: Progress) -> dict[str, float]:
    """What training logs at an evaluation: see `training.heldout.average`.

    Raises:
        EvaluationError: the model is no run that was trained here and evaluated.
        DataError: its store is gone.
    """
    if not is_run(subject.place) or not subject.step:
        raise EvaluationError(
            f"model must be a run that was trained here for --rows, got {subject.place}; name documents with --on"
        )
    config, tokenizer = open_run(subject.place)
    store = data.find_store(config, subject.place, tokenizer)
    config = dataclasses.replace(config, model=subject.config)
    recipe = make_recipe(config, model.make_mesh(), tokenizer, store.dtype, data.step_count(store, config))
    batches = data.evaluation_batches(store, config, recipe)
    if not batches:
        raise EvaluationError(
            f"run must hold out documents and evaluate on them, got none in {subject.place}; name documents with --on"
        )
    steps = compile_evaluation_steps(recipe, dataservice.buckets(data.evaluation_settings(config)), progress)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract_state(recipe)["params"])
    lengths = jax.device_put(tokenizer.token_lengths.astype(np.int32), replicated(recipe))
    return evaluate_batches(jax.device_put(subject.params, shardings), recipe, steps, batches, lengths)
