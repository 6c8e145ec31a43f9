"""`python -m training show`: the rows of a step, found by the folder of the run alone."""

import dataclasses
import re

import pytest

import dataservice
from training.__main__ import main
from training.config import load_config
from training.data import open_corpus
from training.run import Run

STEP = 3


@pytest.fixture(params=["made", "given", "taken away"])
def run(request, trainer):
    """The folder of a run, its settings and its store: made from corpus.paths, named by data.store, or the run's."""
    arguments = [str(trainer.config), "data.seed=5", "data.tails=drop"]
    if request.param == "taken away":
        arguments += ["data.keep_windows=1", "data.ahead_windows=2"]
    config, folder = load_config(arguments), trainer.folder / "a run"
    store, trained = open_corpus(config, folder, lambda *_, **__: None)
    if request.param == "given":
        data = dataclasses.replace(config.data, store=str(store.path))
        config = dataclasses.replace(config, data=data, corpus=type(config.corpus)())
    Run(folder).begin(config, trained)
    return folder, config, store


def test_the_rows_of_a_step_are_those_that_the_run_takes(run, capsys):
    folder, config, store = run
    step = next(iter(dataservice.batches(store, config.data, start_step=STEP - 1, num_steps=1)))
    assert main(["show", str(folder), "--step", str(STEP)]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith(f"step {STEP}: epoch 0")
    texts = [store.tokenizer().decode([*row, targets[-1]]) for row, targets in zip(*rows_of(step), strict=True)]
    assert lines[1::2] == [f"    {text[:200]!r}{'...' if len(text) > 200 else ''}" for text in texts]
    assert main(["show", str(folder), "--step", str(STEP), "--rows", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [first, *lines[:4]]
    assert re.findall(r"^row (\d+): ", "\n".join(lines), re.MULTILINE) == [str(row) for row in range(len(texts))]


def test_a_run_without_its_documents_or_a_step_after_the_last_is_refused_in_a_line(run, capsys):
    folder, config, _ = run

    def failure(*arguments):
        assert main(["show", str(folder), *arguments]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    assert re.search(r"--step must be below \d+, got 100000; ", failure("--step", "100000"))
    if config.data.store is None:
        data = dataclasses.replace(config.data, cache="elsewhere", keep_windows=None, ahead_windows=0)
        Run(folder).write_config(dataclasses.replace(config, data=data))
        assert "data.cache must hold the store of corpus.paths as they are now, got no elsewhere" in failure("--step=1")


def rows_of(batch):
    return batch["inputs"].tolist(), batch["targets"].tolist()
