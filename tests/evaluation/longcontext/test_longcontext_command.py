"""`python -m evaluation longcontext` from a folder of weights to tables, JSON and a page."""

import json

import jax
import pytest

import model
from evaluation.__main__ import main
from model import LlamaConfig
from training.weights import write_weights

CONFIG = LlamaConfig(num_layers=1, dim=32, num_heads=2, hidden_dim=32, dtype="float32", rope_base=1000)


@pytest.fixture(scope="module")
def runs(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for seed, name in enumerate(("one", "two")):
        params = model.init_params(CONFIG, tokenizer.vocab_size, jax.random.key(seed))
        write_weights(folder / name, params, CONFIG, tokenizer)
    return [str(folder / name) for name in ("one", "two")]


@pytest.fixture(scope="module")
def corpus(documents, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("corpus")
    for document in documents[:30]:
        (folder / document.path.split("/")[-1]).write_text(document.text, encoding="utf-8")
    (folder / "long.py").write_text("\n".join(document.text for document in documents[30:]), encoding="utf-8")
    return str(folder)


@pytest.mark.slow
def test_all_tasks_give_tables_values_and_a_page(runs, corpus, tmp_path, capsys):
    files = [tmp_path / "found.json", tmp_path / "found.html"]
    outputs = [word for flag, file in zip(("--json", "--page"), files, strict=True) for word in (flag, str(file))]
    tasks = ["--lengths", "512,1024", "--depths", "0,1", "--samples", "2", "--passage", "8", "--rope-base", "7000"]
    tasks += ["--documents-per-question", "4"]
    assert main(["longcontext", *runs, "--on", corpus, *tasks, *outputs]) == 0
    printed = capsys.readouterr()
    for title in ("Needle", "Keys", "Documents", "Repetition", "Loss of the end", "Differences from one, step 0"):
        assert title in printed.out
    assert all(f"wrote {file}" in printed.err for file in files)
    content = json.loads(files[0].read_text())
    assert [found["rope_base"] for found in content["models"]] == [7000.0] * 2
    assert {cell["task"] for cell in content["models"][0]["cells"]} == set(content["tasks"])
    assert "NaN" not in files[0].read_text()
    # A plot of each measure over the length, and for four tasks a map of each model.
    assert files[1].read_text().count("<svg") == 3 * 2 + 1 + 2 + 4 * 2


@pytest.mark.slow
def test_one_task_is_the_same_every_time(runs, corpus, tmp_path, capsys):
    words = ["longcontext", runs[0], "--on", corpus, "--task", "repetition", "--lengths", "64", "--depths", "0.5"]
    words += ["--samples", "3", "--passage", "8", "--json"]
    for name in ("one", "again"):
        assert main([*words, str(tmp_path / name)]) == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "again").read_bytes()
    cells = json.loads((tmp_path / "one").read_text())["models"][0]["cells"]
    assert [(cell["measure"], len(cell["values"])) for cell in cells] == [("loss", 3), ("gain", 3)]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--lengths", "100000"], "error: documents must "),
        (["--lengths", "16"], "error: --passage must be at most 7 "),
        (["--task", "needles"], "error: --task must be needle, keys, "),
        (["--depths", "2"], "error: --depths must be from 0 "),
        (["--store", "nowhere"], "error: documents must be named once"),
        (["--json", "no/such/folder/file"], "error: --json must be writable"),
        (["--rope-base", "0"], "error: --rope-base must be above 1"),
        (["--begin", "<nothing>"], "error: --begin must be a special token"),
    ],
)
def test_faults_are_one_line(runs, corpus, capsys, words, line):
    assert main(["longcontext", runs[0], "--on", corpus, "--samples", "1", *words]) == 2
    printed = capsys.readouterr()
    last = printed.err.splitlines()[-1]
    assert last.startswith(line) and ";" in last and "Traceback" not in printed.err and printed.out == ""


def test_a_run_that_holds_nothing_out_needs_documents(runs, capsys):
    assert main(["longcontext", runs[0]]) == 2
    assert "documents must be named with --on or --store" in capsys.readouterr().err
