"""Documents that runs and stores hold out, and the loss that train.py reports of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dataservice import DataConfig, TokenFormat, write_store
from evaluation import EvaluationError
from evaluation.__main__ import main
from evaluation.held_out_documents import find_held_out, open_store_of, store_documents, take_documents
from tokenizer.corpus import Document, is_held_out, list_shards, read_shard
from training.config import Config, load_config
from training.run import Run

ROOT = Path(__file__).parents[2]
TEXTS = {"first": ["def alpha(beta):\n", "é"], "second": ["let gamma = 7;\n"]}


@pytest.fixture
def make_store(tokenizer, tmp_path):
    def make(name, held_out):
        shards = {shard: [tokenizer.encode(text) for text in texts] for shard, texts in held_out.items()}
        trained = {shard: [[1, 2, 3]] for shard in shards}
        for folder in (tmp_path / name, tmp_path / name / "held_out"):
            if not folder.exists():
                tokenizer.save(folder / "tokenizer")
        return write_store(tmp_path / name, trained, TokenFormat.of(tokenizer), held_out=shards)

    return make


@pytest.fixture
def make_run(tokenizer, tmp_path):
    def make(name, **data) -> Path:
        Run(tmp_path / name).begin(Config(data=DataConfig(**data)), tokenizer)
        return tmp_path / name

    return make


def test_documents_of_a_store_are_its_texts_again(make_store):
    found = list(store_documents(make_store("store", TEXTS).held_out))
    assert [document.text for document in found] == [text for texts in TEXTS.values() for text in texts]
    assert [document.path for document in found] == ["first/0", "first/1", "second/0"]


def test_a_run_is_evaluated_on_what_it_holds_out(make_store, make_run):
    store = str(make_store("store", TEXTS).path)
    runs = [make_run("one", store=store), make_run("two", store=store)]
    held_out, source = find_held_out(runs)
    assert len(list(store_documents(held_out))) == 3 and source == f"held out from {store}"


def test_runs_that_hold_out_others_are_not_compared(make_store, make_run):
    one = make_run("one", store=str(make_store("store", TEXTS).path))
    same = make_run("same", store=str(make_store("again", TEXTS).path))
    find_held_out([one, same])
    two = make_run("two", store=str(make_store("other", {"first": ["x"], "second": []}).path))
    with pytest.raises(EvaluationError, match=r"models must hold out the same documents, got others in .*two than in"):
        find_held_out([one, two])


def test_models_without_documents_of_their_own_ask_for_some(make_run, tokenizer, tmp_path):
    with pytest.raises(EvaluationError, match=r"--on or --store, got none: .*run was not trained here"):
        open_store_of(make_run("run"))
    with pytest.raises(EvaluationError, match="--on or --store for a folder of transformers"):
        open_store_of(tmp_path)
    shards = {"first": [[1, 2, 3]]}
    store = write_store(tmp_path / "store", shards, TokenFormat.of(tokenizer))
    with pytest.raises(EvaluationError, match=r"documents must be held out of the store of .*, got none"):
        find_held_out([make_run("none", store=str(store.path))])


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["run", "--on", "x", "--store", "y"], "documents must be named once, got --on and --store"),
        (["run", "--rows", "--context", "8"], "--context must be left out with --rows"),
        (["run", "--context", "8", "--stride", "9"], "--stride must be from 1 to the context of 8 tokens, got 9"),
        (["run", "--json", "no/such/folder/x.json"], "--json must be writable"),
        (["run"], "model must be a run"),
    ],
)
def test_the_command_refuses_what_cannot_be_in_one_line(words, fault, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["perplexity", *words]) == 2
    said = capsys.readouterr().err
    assert fault in said and said.count("\n") == 1


TINY = """
corpus: {paths: [CORPUS], held_out_fraction: 0.3, held_out_by: document, shard_bytes: 4000}
tokenizer: {vocab_size: 300}
data: {min_length: 16, max_length: 16, tokens_per_step: 64, cache: CACHE}
model: {num_layers: 1, dim: 16, num_heads: 2, hidden_dim: 32, tied_embeddings: true}
train: {num_steps: 4, evaluate_every: 2, evaluate_batches: 2, checkpoint_every: 2, keep_checkpoints: 9,
        tensorboard: false, run: RUN}
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    for number in range(24):
        path = folder / "corpus" / f"repository{number % 4}" / f"file{number}.{'py' if number % 3 else 'js'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"def f{number}_{line}(x):\n    return x + {line * number}\n" for line in range(number + 1)]
        path.write_text("".join(lines))
    settings = TINY.replace("CORPUS", str(folder / "corpus")).replace("CACHE", str(folder / "cache"))
    (folder / "tiny.yaml").write_text(settings.replace("RUN", str(folder / "run")))
    subprocess.run(
        [sys.executable, str(ROOT / "train.py"), str(folder / "tiny.yaml")],
        check=True,
        capture_output=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu", "DYADLM_COMPILE_CACHE": str(folder / "compile")},
    )
    return folder / "run"


@pytest.mark.slow
@pytest.mark.parametrize("step", [2, 4])
def test_the_held_out_rows_have_the_loss_that_training_logged(trained, step, tmp_path, monkeypatch):
    monkeypatch.setenv("DYADLM_COMPILE_CACHE", str(trained.parent / "compile"))
    assert main(["perplexity", str(trained), "--step", str(step), "--rows", "--json", str(tmp_path / "rows.json")]) == 0
    (found,) = json.loads((tmp_path / "rows.json").read_text())["rows"].values()
    rows = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    logged = next(row for row in rows if row["step"] == step and "held_out_loss_at_0" in row)
    assert len(found) > 5 and found == {key: logged[key] for key in found}


@pytest.mark.slow
def test_the_documents_of_a_run_are_those_it_was_not_trained_on(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DYADLM_COMPILE_CACHE", str(trained.parent / "compile"))
    words = ["perplexity", str(trained), "--json", str(tmp_path / "own.json"), "--page", str(tmp_path / "own.html")]
    assert main([*words, "--context", "16,64"]) == 0
    config = load_config([str(trained / "config.yaml")]).corpus
    read = [document for shard in list_shards(config) for document in read_shard(shard, config)]
    held_out = [document for document in read if is_held_out(document, config)]
    found = {document.text for document in store_documents(find_held_out([trained])[0])}
    assert found == {document.text for document in held_out} and 0 < len(held_out) < len(read)
    own = json.loads((tmp_path / "own.json").read_text())
    size = sum(len(document.text.encode()) for document in held_out)
    assert own["models"][0]["contexts"][1]["num_bytes"] == size and [
        one["context"] for one in own["models"][0]["contexts"]
    ] == [16, 64]
    # The same documents, read with --on, give the same numbers.
    options = ["--held-out-fraction", "0.3", "--held-out-by", "document", "--context", "16,64"]
    on = ["perplexity", str(trained), "--on", str(trained.parent / "corpus"), "--json", str(tmp_path / "on.json")]
    assert main([*on, *options]) == 0
    again = json.loads((tmp_path / "on.json").read_text())
    for one, other in zip(own["models"][0]["contexts"], again["models"][0]["contexts"], strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert one["bits_per_byte"] == pytest.approx(other["bits_per_byte"], rel=1e-5)
    assert "Bits per byte by language" in capsys.readouterr().out


def test_one_of_a_thing_is_told_as_one():
    one, two = Document("é", "a", "", ""), Document("x", "b", "", "")
    assert take_documents([one], "made up").describe() == "1 document of 1 repository (2 bytes), made up"
    assert take_documents([one, two], "made up").describe() == "2 documents of 2 repositories (3 bytes), made up"
