"""The commands of `python -m training`: each prints what it did and returns the exit status."""

import argparse
import sys
from pathlib import Path

__all__ = ["run_export", "run_import", "run_plan", "run_show"]

# Which special token is which of Hugging Face's, as in tokenizer_config.json.
_SPECIAL_IDS = {"bos_token_id": "<eod>", "eos_token_id": "<eod>", "pad_token_id": "<pad>"}


def run_export(arguments: argparse.Namespace) -> int:
    """A run to a folder of Hugging Face transformers."""
    from model.huggingface import write_model
    from tokenizer.artefact import write_files
    from tokenizer.output_folder import new_folder
    from training.weights import check_new_folder, read_weights

    folder = Path(arguments.output)
    check_new_folder(folder)
    weights = read_weights(Path(arguments.run_folder), arguments.step)
    special = weights.tokenizer.special_tokens
    ids = {key: special[name] for key, name in _SPECIAL_IDS.items() if name in special}
    with new_folder(folder) as beside:
        write_files(weights.tokenizer, beside)
        write_model(
            beside,
            weights.params,
            weights.config.model,
            max_length=weights.config.data.max_length,
            dtype=arguments.dtype,
            extra=ids,
        )
        check_new_folder(folder)  # still: what has come there meanwhile would go
    print(f"wrote {folder}: step {weights.step} of {arguments.run_folder} in {arguments.dtype}, for transformers")
    return 0


def run_import(arguments: argparse.Namespace) -> int:
    """A folder of Hugging Face transformers to a run."""
    from model.huggingface import read_model
    from tokenizer import Tokenizer
    from training.errors import TrainingError
    from training.weights import check_new_folder, fit_rows, write_weights

    folder, output = Path(arguments.folder), Path(arguments.output)
    check_new_folder(output)
    params, config = read_model(folder)
    tokenizer = Tokenizer.from_huggingface(folder, special_tokens=arguments.special_tokens)
    rows, wanted = params["embedding"].shape[0], tokenizer.vocab_size
    if rows < wanted - len(arguments.special_tokens):
        raise TrainingError(
            f"embedding must have a row for each of {wanted:,} tokens, got {rows:,}; take weights and tokenizer of one "
            "model"
        )
    write_weights(output, fit_rows(params, wanted), config, tokenizer)
    if rows > wanted:
        print(f"left out {rows - wanted:,} rows of the embeddings that no token has", file=sys.stderr)
    print(f"wrote {output}: {folder} with {wanted:,} tokens, as a run at step 0")
    return 0


def run_plan(arguments: argparse.Namespace) -> int:
    """How a run would lie on devices and what memory it would take, without the devices and without its documents."""
    from training import plan
    from training.config import load_config, parse_arguments
    from training.devices import use_compilation_cache
    from training.run import run_of

    config = load_config(arguments.settings)
    # A run that was moved has its tokenizer beside its config.yaml.
    folders = (run_of(config, arguments.settings).folder, parse_arguments(arguments.settings)[0].parent)
    vocabulary = plan.find_vocabulary(config, folders)
    parts = config.distributed.tensor_parallel
    on_cpu = arguments.compile and arguments.topology is None
    if arguments.topology is not None:
        mesh = plan.described_mesh(arguments.topology, parts)
    elif arguments.compile:
        mesh = plan.virtual_mesh(arguments.devices, parts)
    else:
        mesh = plan.abstract_mesh(arguments.devices, parts)
    recipe = plan.plan_recipe(config, mesh, "float32" if on_cpu else "bfloat16", vocabulary.size)
    planned = plan.plan_buckets(config, recipe)
    limit = None if arguments.device_memory is None else round(arguments.device_memory * plan.GIB)
    print(vocabulary)
    print("\n".join(plan.describe_plan(recipe, planned, limit)))
    if arguments.compile:
        use_compilation_cache()
        print("\n".join(plan.describe_compiled(recipe, planned)))
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Text and source of the rows that a step of a run was taken on."""
    from dataservice.inspection import show_step
    from training.data import find_store
    from training.weights import open_run

    folder = Path(arguments.run_folder)
    config, trained = open_run(folder)
    store = find_store(config, folder, trained)
    # Steps of a schedule count from 0, those of a run from 1: a checkpoint of step 1 has one step behind it.
    for line in show_step(store, config.data, arguments.step, counted_from=1, max_rows=arguments.rows or None):
        print(line)
    return 0
