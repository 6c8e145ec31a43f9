"""python -m training generate, of one prompt and of many."""

import json
from typing import Any

import jax
import pytest

import model
import tokenizer as tokenizers
from model import LlamaConfig, generation
from training.__main__ import main
from training.weights import write_weights

CONFIG = LlamaConfig(num_layers=1, dim=32, num_heads=2, hidden_dim=32, dtype="float32", sliding_window=6)
PROMPTS = ["def alpha(", "let é", ""]
QUICK = ("--max-new-tokens", "7", "--temperature", "1")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    tokenizer = tokenizers.train([("def alpha(beta):\n    return 'é' * 12\n" * 3, "a", "python")], vocab_size=280)
    folder = tmp_path_factory.mktemp("runs") / "run"
    write_weights(folder, model.init_params(CONFIG, tokenizer.vocab_size, jax.random.key(5)), CONFIG, tokenizer)
    return folder


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation():
    """Without XLA's optimizations, which cost more than they save here."""
    options = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 0}
    step: Any = generation._extend_and_sample
    with pytest.MonkeyPatch.context() as patch:
        quick = jax.jit(step.__wrapped__, static_argnames="config", compiler_options=options)
        patch.setattr(generation, "_extend_and_sample", quick)
        yield


def output(capsys, *arguments):
    assert main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def failure(capsys, *arguments):
    assert main([str(argument) for argument in arguments]) == 2
    return capsys.readouterr().err


@pytest.fixture(scope="module")
def alone(run, _quick_compilation):
    """What follows each prompt alone, with the seed of its place."""
    with pytest.MonkeyPatch.context() as patch:
        texts = []
        for seed, prompt in enumerate(PROMPTS, start=3):
            printed = []
            patch.setattr(
                "builtins.print", lambda *words, end="\n", printed=printed, **_: printed.extend([*words, end])
            )
            main(["generate", str(run), "--prompt", prompt, "--seed", str(seed), *QUICK])
            texts.append("".join(printed).removeprefix(prompt).removesuffix("\n"))
    return texts


@pytest.mark.slow
def test_several_prompts_give_a_json_line_each_of_what_follows_it_alone(run, alone, capsys):
    words = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
    lines = output(capsys, "generate", run, *words, "--seed", 3, *QUICK).splitlines()
    assert [json.loads(line) for line in lines] == [
        {"prompt": prompt, "completion": text} for prompt, text in zip(PROMPTS, alone, strict=True)
    ]


def test_prompts_of_a_file_keep_their_keys_whatever_the_size_of_a_batch(tmp_path, run, alone, capsys):
    file, results = tmp_path / "prompts.jsonl", tmp_path / "results.jsonl"
    entries = [{"id": number, "prompt": prompt} for number, prompt in enumerate(PROMPTS)]
    file.write_text(json.dumps(PROMPTS[0]) + "\n\n" + "".join(json.dumps(entry) + "\n" for entry in entries[1:]))
    options = ("--prompts-file", file, "--output", results, "--batch-size", 2, "--seed", 3)
    assert "3 completions by step 0" in output(capsys, "generate", run, *options, *QUICK)
    expected = [entry | {"completion": text} for entry, text in zip(entries, alone, strict=True)]
    del expected[0]["id"]
    assert [json.loads(line) for line in results.read_text().splitlines()] == expected


@pytest.mark.parametrize("line", ["not JSON", "7", '{"text": "a"}', '{"prompt": 3}', b"\xff".decode("latin-1")])
def test_a_line_that_is_no_prompt_is_refused_by_its_number(tmp_path, run, capsys, line):
    file = tmp_path / "prompts.jsonl"
    file.write_bytes(f'"a"\n{line}\n'.encode("latin-1"))
    error = failure(capsys, "generate", run, "--prompts-file", file)
    assert f'{file}:2: prompt must be a JSON string or an object with "prompt", got ' in error
    assert error.count("\n") == 1


def test_no_prompt_and_places_that_cannot_be_used_are_refused(tmp_path, run, capsys):
    assert "prompt must be given, got none; set --prompt TEXT" in failure(capsys, "generate", run)
    assert "No such file or directory" in failure(capsys, "generate", run, "--prompts-file", tmp_path / "none")
    nowhere = failure(capsys, "generate", run, "--prompt", "a", "--output", tmp_path / "none" / "file")
    assert "no such folder" in nowhere
