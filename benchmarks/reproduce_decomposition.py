"""Dataset decomposition (https://arxiv.org/abs/2405.13226) against its rivals at equal tokens: one command.

    python -m benchmarks.reproduce_decomposition --output DIR --data train=TRAIN/*.parquet eval=EVAL/*.parquet
    python -m benchmarks.reproduce_decomposition --output DIR --data store=STORE
    ... --quick     under 10 minutes on two cores; shows that everything works, and is too small to tell anything
    ... --full      more arms, contexts and seeds, each arm with its own learning rate: days, or a GPU
    ... --report    renders what is there already, and runs nothing

By default: documents up to the context of 2,048 and whole ones; concat-and-chunk at the context and at a quarter of it,
concat with a document mask, best-fit packing with a mask, decomposed grow-p2 in 1 and in 8 cycles; 2 seeds; at most 3
hours on two cores. Every arm is `python train.py` over the same documents once, with the same model and settings.

May be stopped anywhere: the same command goes on, each run from its last checkpoint. DIR gets results.json, report.md,
plots/, commands.md (the exact command of every run), and what they are made from: tokenizer/, stores/, held_out/ and
runs/. More seeds (--seeds), arms and contexts may be added later; other sizes need another folder.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.decomposition.arms import arms_of
from benchmarks.decomposition.scales import SCALES, Scale
from benchmarks.plan import (
    PlanError,
    add_size_options,
    check_as_begun,
    check_same_documents,
    check_settings,
    read_plan,
    write_plan,
)
from tokenizer.options import OptionParser, run_command


def make_parser() -> OptionParser:
    parser = OptionParser(
        prog="python -m benchmarks.reproduce_decomposition",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, parser=parser)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of everything")
    parser.add_argument(
        "--data",
        nargs="+",
        default=[],
        metavar="KIND=PATH",
        help="train=PATH... eval=PATH... (without eval a tenth of the repositories is held out), or store=STORE",
    )
    add_size_options(parser, seeds="default 2; quick 1, full 3", full="all arms; days, or a GPU")
    parser.add_argument(
        "--contexts", type=int, nargs="+", metavar="N", help="longest rows (default 2048; full 2048 4096)"
    )
    parser.add_argument("--arms", nargs="+", default=[], metavar="NAME", help="these alone (default all of the size)")
    parser.add_argument(
        "--tokens", type=float, metavar="N", help="of a run (default 917504; quick 131072, full 3145728)"
    )
    parser.add_argument("--tokens-per-step", type=int, metavar="N", help="(default 4096; quick 2048, full 8192)")
    parser.add_argument("--vocab-size", type=int, metavar="N", help="of the tokenizer (default 4096; quick 2048)")
    return parser


def run(options: argparse.Namespace) -> int:
    """All that is not done, then the report."""
    from benchmarks.decomposition.documents import identify_sources, make_data
    from benchmarks.decomposition.jobs import base_config, hot_jobs, main_jobs, trial_jobs
    from benchmarks.decomposition.publishing import write_results
    from benchmarks.decomposition.rates import chosen_rates
    from benchmarks.decomposition.running import run_jobs, time_steps
    from benchmarks.processes import lock
    from benchmarks.publishing import note_command
    from tokenizer import show_progress
    from tokenizer.output import check_writable, write_file

    output: Path = options.output.absolute()
    scale = choose_scale(options, output)
    if options.report:
        write_results(scale, output, options.document)
        return 0
    sources = read_sources(options.data, has_data=(output / "stores").exists())
    check_settings(base_config(scale), scale.overrides)
    check_writable(output)
    with lock(output / "runs"):
        if options.data:
            check_same_documents(output, identify_sources(sources))
        write_plan(scale, output)
        note_command("benchmarks.reproduce_decomposition", output)
        # JSON is YAML.
        write_file(output / "base.yaml", (json.dumps(base_config(scale), indent=1) + "\n").encode())
        with show_progress() as progress:
            make_data(output, sources, scale, progress)

        def tell(line: str) -> None:
            print(line, file=sys.stderr, flush=True)

        run_jobs(list(trial_jobs(scale)), scale, output, tell)
        run_jobs(list(main_jobs(scale, chosen_rates(scale, output).chosen)), scale, output, tell)
        run_jobs(list(hot_jobs(scale)), scale, output, tell)
        for setting in scale.settings:
            time_steps(setting, scale, output, tell)
    write_results(scale, output, options.document)
    return 0


def choose_scale(options: argparse.Namespace, output: Path) -> Scale:
    """The scale that options ask for; a report takes that of the folder.

    Raises:
        PlanError: the folder was begun with another, or the options contradict each other.
    """
    if options.report:
        return read_plan(Scale, output)
    scale = SCALES[options.scale or "default"].with_options(
        seeds=options.seeds,
        contexts=tuple(options.contexts) if options.contexts else None,
        tokens=int(options.tokens) if options.tokens else None,
        tokens_per_step=options.tokens_per_step,
        vocab_size=options.vocab_size,
        overrides=tuple(options.set),
        only_arms=tuple(options.arms),
    )
    check_scale(scale)
    check_as_begun(scale, output)
    return scale


def check_scale(scale: Scale) -> None:
    """Refuse sizes that do not fit together, before anything is made."""
    if scale.seeds < 1:
        raise PlanError(f"--seeds must be 1 or more, got {scale.seeds}; one shows that it works, two tell something")
    for context in scale.contexts:
        if context & (context - 1) or not 4 * scale.min_length <= context <= scale.tokens_per_step:
            raise PlanError(
                f"--contexts must be powers of two from {4 * scale.min_length} to --tokens-per-step "
                f"{scale.tokens_per_step}, got {context}; change either"
            )
    known = [arm.name for setting in scale.settings for arm in arms_of(replace(scale, only_arms=()), setting)]
    for name in scale.only_arms:
        if name not in known:
            raise PlanError(f"--arms must be among {', '.join(dict.fromkeys(known))}, got {name}; leave it out")
    if scale.num_steps < 4 * scale.evaluations:
        least = 4 * scale.evaluations * scale.tokens_per_step
        raise PlanError(f"--tokens must be at least {least}, got {scale.tokens}; raise it or lower --tokens-per-step")


def read_sources(words: Sequence[str], *, has_data: bool):
    """`train=`, `eval=` and `store=`, each word that follows without one belonging to the last.

    Raises:
        PlanError: there is no data, or a store beside documents.
    """
    from benchmarks.decomposition.documents import Sources

    found: dict[str, list[str]] = {"train": [], "eval": [], "store": []}
    kind = "train"
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in found:
            kind, word = name, value
        found[kind].append(word)
    if not has_data and not found["train"] and not found["store"]:
        raise PlanError("--data must name documents, got none; write --data train=PATH... eval=PATH... or store=STORE")
    if found["store"] and (found["train"] or len(found["store"]) > 1):
        raise PlanError("--data must be documents or one store, got both; leave out train= or store=")
    return Sources(tuple(found["train"]), tuple(found["eval"]), *found["store"])


def main(arguments: Sequence[str] | None = None) -> int:
    from benchmarks.processes import ProcessFailedError
    from dataservice.errors import DataError
    from tokenizer.errors import TokenizerError
    from training.errors import TrainingError

    errors = (PlanError, ProcessFailedError, TokenizerError, DataError, TrainingError)
    return run_command(make_parser(), arguments, errors=errors, interrupted="interrupted; run it again to go on")


if __name__ == "__main__":
    sys.exit(main())
