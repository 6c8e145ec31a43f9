"""Train a language model: python train.py [CONFIG.yaml] [key=value ...]; --help lists every option.

One run, top to bottom. Without a config: configs/demo.yaml. Run again, it goes on from the last checkpoint.
"""

import sys

from training.signals import end_on_signals

if __name__ == "__main__":
    end_on_signals()  # before the imports that take their time

import traceback
from collections.abc import Sequence
from pathlib import Path

from tokenizer import show_progress
from tokenizer.log_lines import print_warnings
from training.companions import end_together
from training.config import Config, load_config, print_help, resolved_settings
from training.errors import explain
from training.exits import EXIT_OK
from training.run import Run, run_of


def main(arguments: Sequence[str]) -> int:
    """Run train.py and return its exit code, one of training/exits.py."""
    if "--help" in arguments or "-h" in arguments:
        print_help()
        return EXIT_OK
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  (a log is read while it grows)
    try:
        config = load_config(arguments)
        run = run_of(config, arguments)
        run.check_config(config)
        if (row := run.finished_row(config.train.num_steps)) is not None:
            loss = f", held-out loss {row['held_out_loss']:.4f}" if "held_out_loss" in row else ""
            print(f"{run.folder} is finished: {row['step']} steps{loss}; see {run.plot}")
            return EXIT_OK
        return train(config, run)
    except Exception as error:
        line, code = explain(error)
        print(f"error: {line}" if line else traceback.format_exc(), file=sys.stderr)
        return end_together(line or f"a fault, {error!r}", code)


def train(config: Config, run: Run) -> int:
    """Documents in, trained model out."""
    import jax

    import dataservice
    from model.selfcheck import check_attention
    from training import checkpoint, compilation, data, devices, report, trackers
    from training.checkpoint_folder import checkpoint_folder, claim_folder, committed_steps
    from training.heldout import Evaluator
    from training.initial_weights import find_initial_weights, starting_state
    from training.loop import Loop
    from training.metrics import MetricsLog
    from training.phases import Kind, Phases
    from training.profiling import Profile
    from training.signals import stop_on_signals
    from training.step import make_recipe
    from training.watchdog import watch

    trackers.check_tracker(config.train)
    mesh = devices.start(config.distributed)
    is_first = jax.process_index() == 0
    lock = run.lock() if is_first else None
    if is_first:
        claim_folder(run, config.train)
    print(f"run {run.folder} on {devices.describe_devices(mesh)}")

    phases = Phases()
    with show_progress() as progress, print_warnings(), watch(phases, run.folder, config.train):
        # Documents: a tokenizer and a store, made if they are not there; training starts with the first window.
        store, tokenizer = data.open_corpus(config, run.folder, progress)
        num_steps = data.step_count(store, config)
        folder = checkpoint_folder(run, config.train)
        if config.train.initial_weights and not committed_steps(folder):
            # Weights of another model are refused before compilation, which takes long.
            find_initial_weights(Path(config.train.initial_weights), config.model, tokenizer)

        # Shapes first: every executable is there before any parameter is.
        phases.enter(Kind.COMPILE)
        recipe = make_recipe(config, mesh, tokenizer, store.dtype, num_steps)
        report.describe_model(recipe)
        buckets, held_out_buckets = map(dataservice.buckets, (config.data, data.evaluation_settings(config)))
        print(check_attention(recipe.model, [*buckets, *held_out_buckets]))
        train_steps = compilation.compile_train_steps(recipe, buckets, progress)
        evaluation_steps = compilation.compile_evaluation_steps(recipe, held_out_buckets, progress)
        print("\n".join(compilation.compilation_table(train_steps.values(), recipe)))

        # State: the newest checkpoint of this run, or a fresh one.
        phases.enter(Kind.RESTORE)
        position, retention = data.bookkeeping(store, config, tokenizer)
        checkpoints = checkpoint.Checkpoints(
            folder,
            config.train,
            position=position,
            release=retention.release,
        )
        state, step, tokens = checkpoints.restore_or_start(
            recipe, lambda: starting_state(recipe, config.train, tokenizer)
        )
        retention.refuse_passed(step)
        # Not before: settings that are refused leave the run as it was.
        if is_first:
            run.begin(config, tokenizer)
        print(f"resumed at step {step}" if step else f"start of {num_steps} steps")
        sinks = trackers.open_trackers(run.folder, config.train, resolved_settings(config), step) if is_first else ()
        log = MetricsLog(run.folder, restored_step=step, writes=is_first, trackers=sinks)

        # Steps.
        held_out = data.evaluation_batches(store, config, recipe)
        evaluator = Evaluator(recipe, evaluation_steps, held_out, tokenizer.token_lengths, log, phases)
        profile = Profile(run.folder, config.train)
        loop = Loop(
            recipe,
            config.train,
            num_steps,
            train_steps,
            log,
            progress,
            checkpoints.save,
            evaluator,
            phases,
            profile,
            checkpoints.check,
        )
        steps_left = range(step, num_steps)
        with (
            stop_on_signals() as stop,
            data.training_batches(store, config, recipe, steps_left, stop, phases) as batches,
        ):
            state = loop.run(state, batches, step, tokens, stop)
            phases.enter(Kind.SAVE)
            checkpoints.close()
        phases.enter(Kind.CLOSE)
        report.close_summary(run, loop, phases)
        if stop.signal is not None:
            log.close()
            saved = "saved" if loop.step > step else "with nothing new to save"
            print(f"stopped at step {loop.step}, {saved}; run the same command again to go on")
            return stop.exit_code

        # Results.
        report.close_run(run, config, state, loop, held_out, tokenizer)
    del lock
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
