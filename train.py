"""Train a language model: python train.py [CONFIG.yaml] [key=value ...]; --help lists every option.

One run, top to bottom. Without a config: configs/demo.yaml. Run again, it goes on from the last checkpoint.
"""

import sys
from collections.abc import Sequence
from typing import Any

from tokenizer import show_progress
from training.config import Config, load_config, print_help
from training.run import Run, run_of

EXIT_OK, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 0, 2, 130


def main(arguments: Sequence[str]) -> int:
    """Run train.py and return its exit code: 0 done, 2 bad input (one line says what), 128 + signal when stopped."""
    if "--help" in arguments or "-h" in arguments:
        print_help()
        return EXIT_OK
    try:
        config = load_config(arguments)
        run = run_of(config, arguments)
        run.check_config(config)
        if (row := run.finished_row(config.train.num_steps)) is not None:
            loss = row.get("held_out_loss")
            print(f"{run.folder} is finished: {row['step']} steps, held-out loss {loss}; see {run.plot}")
            return EXIT_OK
        return train(config, run)
    except ValueError as error:
        if not is_user_error(error):
            raise
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        return EXIT_INTERRUPTED


def is_user_error(error: Exception) -> bool:
    """Whether a package raised it as a line for the user (anything else is a fault of ours, with its traceback)."""
    return any(
        kind.__name__ in ("TokenizerError", "DataError", "ModelError", "TrainingError") for kind in type(error).mro()
    )


def train(config: Config, run: Run) -> int:
    """Documents in, trained model out."""
    import jax
    import numpy as np

    import dataservice
    import model
    from training import agreement, checkpoint, compilation, data, devices, finish, heldout, optimizer, placement, step
    from training.config import config_digest
    from training.loop import Loop
    from training.metrics import MetricsLog
    from training.signals import stop_on_signals

    # 1. Devices.
    devices.keep_freed_memory()
    devices.join_processes(config.distributed)
    devices.use_compilation_cache()
    mesh = model.make_mesh()
    is_first = jax.process_index() == 0
    lock = run.lock() if is_first else None
    print(f"run {run.folder} on {devices.describe_devices(mesh)}")

    with show_progress() as progress:
        # 2. Tokenizer and data; process 0 makes what is missing.
        store, tok = data.open_corpus(config, progress)
        schedule = dataservice.schedule_digest(config.data)
        agreement.check_agreement(config=config_digest(config), data=store.prefix_digest(1), tokenizer=tok.fingerprint)
        if is_first:
            run.write_config(config)
            tok.save(run.tokenizer)
        num_steps = data.step_count(store, config)

        # 3. Model and optimizer, shapes first.
        spec = step.StepSpec(
            model=config.model,
            vocab_size=tok.vocab_size,
            mesh=mesh,
            tokens_per_step=config.data.tokens_per_step,
            z_loss=config.optimizer.z_loss,
            loss_chunk_tokens=config.train.loss_chunk_tokens,
        )
        transform = optimizer.make_optimizer(config.optimizer)
        learning_rate = optimizer.learning_rates(config.optimizer, num_steps)
        shapes = step.abstract_state(spec, transform)
        print(f"model: {model.count_params(config.model, tok.vocab_size):,} parameters")
        print(optimizer.describe_decay(shapes["params"]))

        # 4. One executable per bucket, longest first.
        buckets = dataservice.buckets(config.data)
        steps = compilation.compile_train_steps(spec, transform, learning_rate, buckets, store.dtype, progress)
        evaluations = compilation.compile_evaluation_steps(spec, transform, buckets, store.dtype, progress)
        print("\n".join(compilation.compilation_table(steps.values(), spec.tokens_per_step)))

        # 5. Restore, or start.
        def position(at: int, tokens: int) -> checkpoint.Position:
            digest = dataservice.data_digest(store, config.data, at)
            return checkpoint.Position(at, tokens, digest, schedule, tok.fingerprint, repr(config.model))

        checkpoints = checkpoint.Checkpoints(run.checkpoints, keep=config.train.keep_checkpoints)
        start, tokens = checkpoints.latest_step() or 0, 0
        if start:
            saved = checkpoints.read_position(start)
            checkpoint.check_position(saved, position(start, saved.tokens))
            state, tokens = checkpoints.restore(start, shapes), saved.tokens
            print(f"resumed at step {start}")
        else:
            shardings = jax.tree.map(lambda leaf: leaf.sharding, shapes)
            key = jax.random.key(config.train.seed)
            state = jax.jit(lambda key: step.init_state(spec, transform, key), out_shardings=shardings)(key)
        log = MetricsLog(run.folder, restored_step=start, writes=is_first, tensorboard=config.train.tensorboard)

        # 6. Held-out loss.
        held_out = data.held_out_batches(store, config, spec)
        token_lengths = jax.device_put(np.asarray(tok.token_lengths, np.int32), compilation.replicated(spec))

        def run_batch(params: Any, batch: dict[str, Any]) -> dict[str, Any]:
            bucket = dataservice.Bucket(batch["length"], batch["packed"])
            placed = placement.place_batch(batch, step.batch_shapes(spec, bucket, store.dtype))
            return jax.device_get(evaluations[bucket].call(params, placed, token_lengths))

        def evaluate(state: step.State, at: int, tokens: int) -> None:
            values = heldout.evaluate(held_out, lambda batch: run_batch(state["params"], batch))
            log.write({"step": at, "tokens": tokens, "seconds": log.seconds, **values})
            print(f"step {at}: held-out loss {values['held_out_loss']:.4f} nats per token")

        # 7. Train.
        loop = Loop(
            spec=spec,
            config=config.train,
            num_steps=num_steps,
            steps=steps,
            log=log,
            progress=progress,
            save=lambda state, at, tokens: checkpoints.save(state, position(at, tokens)),
            evaluate=evaluate,
            peak_flops=devices.peak_flops(mesh),
        )
        batches = dataservice.batches(
            store,
            config.data,
            start_step=start,
            num_steps=num_steps - start,
            block=lambda bucket: placement.block_of(spec, bucket),
        )
        with stop_on_signals() as stop:
            state = loop.run(state, iter(batches), start, tokens, stop)
        checkpoints.close()
        log.flush()
        if stop.signal is not None:
            print(f"stopped at step {loop.step}, saved; run the same command again to go on")
            return stop.exit_code

        # 8. Close.
        finish.close_run(run, config, state, loop, held_out, tok)
    del lock
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
