"""What a second core gives: counting in processes and encoding in threads, in wall time.

    python -m benchmarks.tokenizer_cores PATH.parquet ... --tokenizer TOKENIZER [--repeats 3] [--cores 2]

Merging is serial, so training gains by its counting alone. Each run has a process of its own; texts are read before the
clock starts, processes are started within it. `gain` is the median over turns of the ratio of wall times within a turn.
"""

import argparse
from functools import partial

from benchmarks.measurement import measure, middle, paired_ratio, print_table, read_texts, run_in_turns


def count(paths: list[str], cores: int) -> None:
    from tokenizer.counting.counts import count_words

    documents = list(zip(*read_texts(paths), strict=True))
    work = partial(count_words, documents, "gpt4", processes=cores)
    measure(work, lambda counts: str((len(counts.counts), int(counts.counts.sum()))))


def encode(paths: list[str], folder: str, cores: int) -> None:
    from tokenizer import Tokenizer

    texts, encoder = read_texts(paths)[0], Tokenizer.load(folder)
    measure(lambda: encoder.encode_batch(texts, threads=cores), lambda result: str(int(result[0].sum())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Parquet files with columns text, repo, language")
    parser.add_argument("--tokenizer", required=True, metavar="DIR", help="folder of the tokenizer")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each (default 3)")
    parser.add_argument("--cores", type=int, default=2, help="processes and threads (default 2)")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        work, cores = options.peer.split()
        run = partial(count, options.paths) if work == "count" else partial(encode, options.paths, options.tokenizer)
        run(int(cores))
        return
    kinds = [(work, (f"{work} 1", f"{work} {options.cores}")) for work in ("count", "encode")]
    arguments = [*options.paths, "--tokenizer", options.tokenizer]
    names = [name for _, both in kinds for name in both]
    results = run_in_turns("benchmarks.tokenizer_cores", names, arguments, options.repeats)
    rows = []
    for work, (one, several) in kinds:
        assert {run.digest for run in results[one] + results[several]} == {results[one][0].digest}
        walls = [f"{middle(results[name], 'wall'):.2f}" for name in (one, several)]
        cpus = [f"{middle(results[name], 'cpu'):.2f}" for name in (one, several)]
        rows.append([work, *walls, f"{paired_ratio(results[one], results[several], 'wall'):.2f}", *cpus])
    several = f"{options.cores} cores"
    print_table(["work", "wall s, 1 core", f"wall s, {several}", "gain", "CPU s, 1 core", f"CPU s, {several}"], rows)


if __name__ == "__main__":
    main()
