"""python -m training: runs out to transformers, back in, and at work."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

import model
import model.huggingface
import tokenizer as tokenizers
from model import LlamaConfig
from tokenizer import Tokenizer
from tokenizer.artefact import place_tokenizer
from training.__main__ import main
from training.checkpoint import items_of
from training.position import Position
from training.run import Run
from training.weights import read_weights, write_weights

ROOT = Path(__file__).parents[2]
CONFIG = LlamaConfig(num_layers=2, dim=32, num_heads=4, num_kv_heads=2, hidden_dim=64, dtype="float32")
TEXT = "def alpha(beta):\n    return 'é' * 12\n"


@pytest.fixture(scope="module")
def tokenizer():
    documents = [(TEXT * 3, "a", "python"), ("let gamma = alpha(7);\n" * 4, "b", "js")]
    return tokenizers.train(documents, vocab_size=300)


@pytest.fixture(scope="module")
def run(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("runs") / "run"
    params = model.init_params(CONFIG, tokenizer.vocab_size, jax.random.key(5))
    write_weights(folder, params, CONFIG, tokenizer)
    return folder


def failure(capsys, *arguments):
    assert main([str(argument) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def assert_equal(params, others):
    jax.tree.map(np.testing.assert_array_equal, params, others)


def test_an_exported_run_comes_back_the_same(tmp_path, run, tokenizer, capsys):
    assert main(["export", str(run), "--output", str(tmp_path / "out")]) == 0
    assert main(["import", str(tmp_path / "out"), "--output", str(tmp_path / "back")]) == 0
    there, back = read_weights(run), read_weights(tmp_path / "back")
    assert_equal(there.params, back.params)
    assert back.tokenizer.fingerprint == tokenizer.fingerprint
    spelled = {"head_dim": 8, "num_kv_heads": 2, "dtype": "auto"}
    assert dataclasses.replace(there.config.model, **spelled) == back.config.model
    content = json.loads((tmp_path / "out" / "config.json").read_text())
    assert content["eos_token_id"] == tokenizer.special_tokens["<eod>"]
    assert content["pad_token_id"] == tokenizer.special_tokens["<pad>"]


@pytest.mark.peers
def test_transformers_goes_on_with_a_text_as_generate_does(tmp_path, run, tokenizer, capsys):
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    main(["export", str(run), "--output", str(tmp_path)])
    capsys.readouterr()
    assert main(["generate", str(run), "--prompt", TEXT, "--temperature", "0", "--max-new-tokens", "20"]) == 0
    ours = capsys.readouterr().out
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    coder = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ids = [coder.convert_tokens_to_ids("<eod>"), *coder(TEXT).input_ids]
    assert ids[1:] == tokenizer.encode(TEXT)
    drawn = theirs.generate(torch.tensor([ids]), max_new_tokens=20, do_sample=False)[0, 1:]
    assert coder.decode(drawn) == ours.removesuffix("\n")


@pytest.mark.slow
def test_a_trained_run_is_exported_from_the_checkpoint_that_is_asked_for(trainer, capsys):
    assert "attention: chunked and chunked with segments within " in trainer.train("train.run=trained")
    run = trainer.folder / "trained"
    first, last = read_weights(run, 4), read_weights(run)
    assert (first.step, last.step) == (4, 12)
    assert not np.array_equal(first.params["embedding"], last.params["embedding"])
    assert main(["export", str(run), "--step", "4", "--output", str(trainer.folder / "out")]) == 0
    params, _ = model.huggingface.read_model(trainer.folder / "out")
    assert_equal(params, first.params)
    assert "steps 4" not in failure(capsys, "export", run, "--step", 5, "--output", trainer.folder / "out")


def test_logits_outlast_an_import_that_adds_special_tokens(tmp_path, run, tokenizer, capsys):
    plain = Tokenizer(tokenizer.pairs, pattern=tokenizer.pattern, special_tokens=[])
    params = model.init_params(CONFIG, plain.vocab_size, jax.random.key(6))
    write_weights(tmp_path / "plain", params, CONFIG, plain)
    main(["export", str(tmp_path / "plain"), "--output", str(tmp_path / "out")])
    assert main(["import", str(tmp_path / "out"), "--output", str(tmp_path / "in"), "--special-tokens", "<eod>"]) == 0
    weights = read_weights(tmp_path / "in")
    assert weights.tokenizer.vocab_size == plain.vocab_size + 1
    tokens = jnp.asarray([plain.encode(TEXT)])
    mine = model.logits(weights.params, CONFIG, tokens)
    np.testing.assert_allclose(mine[..., :-1], model.logits(params, CONFIG, tokens), atol=1e-6)
    np.testing.assert_allclose(weights.params["embedding"][-1], params["embedding"].mean(0), atol=1e-6)


def test_rows_that_no_token_has_are_left_out(tmp_path, run, tokenizer, capsys):
    params = model.init_params(CONFIG, tokenizer.vocab_size + 7, jax.random.key(6))
    tokenizer.save(tmp_path / "padded")
    model.huggingface.write_model(tmp_path / "padded", params, CONFIG, max_length=64)
    assert main(["import", str(tmp_path / "padded"), "--output", str(tmp_path / "in")]) == 0
    assert "left out 7 rows" in capsys.readouterr().err
    assert_equal(read_weights(tmp_path / "in").params["head"], params["head"][:-7])


def test_a_model_with_fewer_rows_than_tokens_is_refused(tmp_path, run, tokenizer, capsys):
    params = model.init_params(CONFIG, tokenizer.vocab_size - 1, jax.random.key(6))
    tokenizer.save(tmp_path / "small")
    model.huggingface.write_model(tmp_path / "small", params, CONFIG, max_length=64)
    line = failure(capsys, "import", tmp_path / "small", "--output", tmp_path / "in")
    assert f"a row for each of {tokenizer.vocab_size} tokens, got {tokenizer.vocab_size - 1}" in line
    assert not (tmp_path / "in").exists()


def test_generated_text_ends_at_a_stop_token_and_depends_on_the_seed(run, capsys):
    def text(*options):
        assert main(["generate", str(run), "--prompt", "def ", "--temperature", "1", *options]) == 0
        return capsys.readouterr().out

    assert text("--seed", "1") == text("--seed", "1") != text("--seed", "2")
    assert text("--seed", "1").startswith("def ")
    assert text("--max-new-tokens", "0") == "def \n"


def test_places_that_hold_no_run_and_wrong_names_are_refused_in_a_line(tmp_path, run, capsys):
    assert "folder with config.yaml and tokenizer/" in failure(capsys, "generate", tmp_path, "--prompt", "a")
    assert "checkpoint (0) of" in failure(capsys, "generate", run, "--step", 3, "--prompt", "a")
    assert "output must be a new or empty folder" in failure(capsys, "import", exported(tmp_path, run), "--output", run)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--stop", "<end>", "--begin and --stop must be special tokens of the run (<eot>, "),
        ("--begin", "<end>", "--begin and --stop must be special tokens of the run (<eot>, "),
        ("--temperature", -1, "--temperature must be 0 (greedy) or more, got -1"),
        ("--top-p", 1.5, "--top-p must be above 0 and at most 1, got 1.5"),
    ],
)
def test_generate_refuses_options_before_it_reads_weights(run, capsys, monkeypatch, option, value, message):
    monkeypatch.setattr("training.weights.read_weights", lambda *_: pytest.fail("weights are read"))
    assert main(["generate", str(run), "--prompt", "a", option, str(value)]) == 2
    out, error = capsys.readouterr()
    assert not out and error.startswith(f"error: {message}") and error.count("\n") == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of reads that orbax gives up
def test_a_damaged_checkpoint_is_refused_in_a_line(tmp_path, run, tokenizer, capsys):
    write_weights(tmp_path / "run", read_weights(run).params, CONFIG, tokenizer)
    for path in (tmp_path / "run" / "checkpoints" / "0" / "state").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert "checkpoint must be whole" in failure(capsys, "generate", tmp_path / "run", "--prompt", "a")


def test_weights_that_are_not_finite_are_refused_by_name_with_the_other_steps(tmp_path, run, tokenizer, capsys):
    params = read_weights(run).params
    bad = params | {"embedding": params["embedding"].at[7, 3].set(jnp.nan)}
    write_weights(tmp_path / "run", bad, CONFIG, tokenizer)
    for command in (["generate", "--prompt", "a"], ["export", "--output", tmp_path / "out"]):
        line = failure(capsys, command[0], tmp_path / "run", *command[1:])
        place = tmp_path / "run" / "checkpoints" / "0"
        assert f"weights must be finite, got {place} whose params.embedding is not; choose another with --step" in line
    assert not (tmp_path / "out").exists()


def test_emptied_metadata_is_a_reason_that_can_be_read(tmp_path, run, tokenizer, capfd):
    for name in ("_METADATA", "_sharding", "manifest.ocdbt"):
        shutil.copytree(run, tmp_path / name)
        (tmp_path / name / "checkpoints" / "0" / "state" / name).write_bytes(b"")
        assert main(["generate", str(tmp_path / name), "--prompt", "a"]) == 2
        output = capfd.readouterr().err
        assert "its _METADATA, _sharding or manifest.ocdbt cannot be read" in output and output.count("\n") == 1


@pytest.mark.slow
def test_a_command_says_nothing_beside_its_own_line(run, tmp_path):
    """In a process of its own, where nobody has quieted orbax before: over a whole checkpoint and a damaged one."""
    shutil.copytree(run, tmp_path / "cut")
    data = max((tmp_path / "cut").glob("checkpoints/0/state/*.process_0/d/*"), key=lambda path: path.stat().st_size)
    os.truncate(data, 100)
    for folder, lines in ((run, 0), (tmp_path / "cut", 1)):
        command = [sys.executable, "-m", "training", "generate", str(folder), "--prompt", "a", "--max-new-tokens", "1"]
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"JAX_PLATFORMS": "cpu"}, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr.count("\n")) == (2 * lines, lines), done.stderr


def test_an_import_that_was_killed_anywhere_leaves_nothing_in_the_way(tmp_path, run, tokenizer, capsys, monkeypatch):
    """Each file that is made is the last one: the process is gone before the next."""
    hub, output = exported(tmp_path, run), tmp_path / "new" / "in"
    weights = read_weights(run)
    for name in ("save", "write_config"):
        owner = {"save": Tokenizer, "write_config": Run}[name]
        left = tmp_path / "new" / ".in.0123456789abcdef0123456789abcdef"

        def killed(self, *arguments, left=left, **options):
            shutil.copytree(next(path for path in left.parent.iterdir() if path != left), left, dirs_exist_ok=True)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, killed)
            with pytest.raises(KeyboardInterrupt):
                write_weights(output, weights.params, CONFIG, tokenizer)
        assert not output.exists() and left.exists()
    assert main(["import", str(hub), "--output", str(output)]) == 0
    assert [path.name for path in output.parent.iterdir()] == ["in"]
    assert_equal(read_weights(output).params, weights.params)
    content = (output / "config.yaml").read_text()
    assert f"run: {output}\n" in content and f"path: {output / 'tokenizer'}\n" in content


def test_nothing_takes_the_place_of_what_was_made(tmp_path, run, owned, capsys):
    hub = exported(tmp_path, run)
    Path("prompts.jsonl").write_text('"def "\n')
    capsys.readouterr()
    commands = {"export": [run], "import": [hub], "generate": [run, "--prompts-file", "prompts.jsonl"]}
    for name, rest in commands.items():
        for output, kind in owned.items():
            line = failure(capsys, name, *rest, "--output", output)
            assert f"--output must not be part of {kind}, got {output} of " in line
    for output in ("run/checkpoints/60", "store/held_out", "coder/tokenizer"):
        assert "must not be part of" in failure(capsys, "export", run, "--output", output)
    for output in ("run", "coder", "store"):
        assert "output must be a new or empty folder" in failure(capsys, "export", run, "--output", output)
    line = failure(capsys, *("generate", run, "--prompts-file", "prompts.jsonl", "--output", "prompts.jsonl"))
    assert "--output must not be what is read" in line
    for _ in range(2):
        words = ["generate", run, "--prompt", "a", "--max-new-tokens", 1, "--output", "run/texts.jsonl"]
        assert main(list(map(str, words))) == 0


def test_what_comes_into_the_folder_meanwhile_stays(tmp_path, run, capsys, monkeypatch):
    hub = exported(tmp_path, run)
    capsys.readouterr()
    for name, rest, owner, called in (
        ("export", [run], model.huggingface, "write_model"),
        ("import", [hub], Run, "write_config"),
    ):
        output, whole = tmp_path / f"new-{name}", getattr(owner, called)

        def act(*arguments, whole=whole, output=output, **options):
            output.mkdir()
            (output / "notes.txt").write_text("mine")
            whole(*arguments, **options)

        monkeypatch.setattr(owner, called, act)
        assert "output must be a new or empty folder" in failure(capsys, name, *rest, "--output", output)
        assert [path.name for path in output.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("has_position", [False, True])
def test_a_tokenizer_that_was_replaced_is_said_to_be_the_cause(tmp_path, run, tokenizer, capsys, has_position):
    shutil.copytree(run, tmp_path / "run")
    same_size = Tokenizer(tokenizer.pairs, pattern="none", special_tokens=list(tokenizer.special_tokens))
    smaller = Tokenizer(tokenizer.pairs[:-1], special_tokens=list(tokenizer.special_tokens))
    if has_position:
        position = Position(0, 0, "data", "schedule", tokenizer.fingerprint, repr(CONFIG))
        with ocp.CheckpointManager(tmp_path / "run" / "checkpoints") as manager:
            manager.save(7, args=items_of({"params": read_weights(run).params}, position._asdict()))
    others = {"vocabulary": (smaller, f"{tokenizer.vocab_size} tokens", f"{smaller.vocab_size} tokens")}
    if has_position:
        others["tokenizer"] = (same_size, tokenizer.fingerprint, same_size.fingerprint)
    for name, (other, was, now) in others.items():
        place_tokenizer(other, tmp_path / "run" / "tokenizer")
        line = failure(capsys, "generate", tmp_path / "run", "--prompt", "a")
        assert line.startswith(f"error: {name} must be that of checkpoint {tmp_path}") and "--step" not in line
        assert f", {was}, got {now}: {tmp_path / 'run' / 'tokenizer'} was replaced; put" in line
    place_tokenizer(tokenizer, tmp_path / "run" / "tokenizer")
    assert read_weights(tmp_path / "run").step == 7 * has_position


def test_a_model_that_transformers_cannot_express_is_refused_with_the_reason(tmp_path, tokenizer, capsys):
    for name, value in (("norm", "layer"), ("qk_norm", True)):
        config = dataclasses.replace(CONFIG, **{name: value})
        write_weights(
            tmp_path / name, model.init_params(config, tokenizer.vocab_size, jax.random.key(0)), config, tokenizer
        )
        line = failure(capsys, "export", tmp_path / name, "--output", tmp_path / "out")
        assert line.startswith(f"error: {name} must be ") and "transformers has no architecture with" in line
        assert not (tmp_path / "out").exists()


def exported(folder, run):
    main(["export", str(run), "--output", str(folder / "out")])
    return folder / "out"
