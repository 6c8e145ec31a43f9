"""Our models in lm-evaluation-harness."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import model
from evaluation import EvaluationError
from evaluation.__main__ import main
from evaluation.boundaries import find_boundaries
from evaluation.choice_items import Item
from evaluation.choices import score_choices
from evaluation.held_out_documents import take_documents
from evaluation.perplexity import measure
from evaluation.windows import cut_windows
from tokenizer.corpus import Document
from training.weights import write_weights

ROOT = Path(__file__).parents[2]
TEXTS = ["def alpha(beta):\n" * 8, "let gamma = alpha(7);\n", "é"]
ITEMS = [Item("def alpha", ("(beta)", "é"), 0, {}), Item("", ("let gamma", " 1"), 1, {})]


@pytest.fixture(scope="module")
def run(subject, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    write_weights(folder, subject.params, subject.config, subject.tokenizer)
    return folder


@pytest.fixture(scope="module")
def judged(run):
    pytest.importorskip("lm_eval")
    from evaluation.lm_eval import DyadLM

    # As a map: where lm_eval is not installed, its base class has no arguments for a checker of types.
    arguments: dict[str, Any] = {"run": str(run), "max_length": 32, "batch_size": 2}
    return DyadLM(**arguments)


def requests(*arguments):
    return [SimpleNamespace(args=each) for each in arguments]


@pytest.mark.peers
def test_continuations_have_the_scores_of_choices(judged, subject):
    found = judged.loglikelihood(requests(*((item.context, choice) for item in ITEMS for choice in item.choices)))
    expected = score_choices(subject, ITEMS, find_boundaries(subject).begin, max_length=32)
    np.testing.assert_allclose([total for total, _ in found], np.concatenate([one.totals for one in expected]), 1e-5)


@pytest.mark.peers
def test_what_the_model_would_write_itself_is_told(judged, subject):
    begin, letters = find_boundaries(subject).begin, "abcdefghijklmnopqrstuvwxyz"
    tokens = np.array([[begin, ord(letter)] for letter in letters])
    likeliest = np.asarray(model.logits(subject.params, subject.config, jnp.asarray(tokens)))[:, 1].argmax(-1).tolist()
    # Those letters after which the likeliest token is plain text that is that token again.
    texts = [subject.tokenizer.decode([token]) for token in likeliest]
    pairs = [
        (letter, text)
        for letter, text, token in zip(letters, texts, likeliest, strict=True)
        if subject.tokenizer.encode(letter + text) == [ord(letter), token]
    ]
    assert pairs
    given = requests(*pairs, *((letter, text + "é") for letter, text in pairs))
    greedy = [is_greedy for _, is_greedy in judged.loglikelihood(given)]
    assert all(greedy[: len(pairs)]) and not any(greedy[len(pairs) :])


@pytest.mark.peers
def test_whole_texts_have_the_losses_of_documents_in_windows_that_do_not_overlap(judged, subject):
    documents = take_documents([Document(text, "", "", "") for text in TEXTS], "")
    (losses,) = measure(subject, documents, find_boundaries(subject), contexts=[32], stride=32)
    found = judged.loglikelihood_rolling(requests(*((text,) for text in TEXTS)))
    # A document has one token more, its end: only the last window may be another.
    np.testing.assert_allclose(found[1:], -losses.text_nll[1:], rtol=1e-5)
    assert found[0] == pytest.approx(-losses.text_nll[0], rel=1e-2) and losses.num_tokens[0] > 32


@pytest.mark.peers
@pytest.mark.parametrize(("length", "context", "overlap"), [(1, 4, 1), (4, 4, 1), (5, 4, 1), (23, 8, 3), (16, 8, 8)])
def test_windows_are_those_of_lm_eval(length, context, overlap):
    utils = pytest.importorskip("lm_eval.utils")
    tokens = list(range(1, length + 1))
    whole = [0, *tokens]
    windows = cut_windows(length, context, context - overlap + 1)
    ours = [(whole[start:stop], whole[first + 1 : stop + 1]) for start, first, stop in windows]
    assert ours == list(utils.get_rolling_token_windows(tokens, 0, context, overlap))


@pytest.mark.peers
@pytest.mark.slow
def test_texts_are_generated_up_to_what_stops_them(judged, subject):
    end = find_boundaries(subject).end
    prompts = ["def alpha", "let", "é" * 40]
    whole = []
    for prompt in prompts:
        ids = [end, *subject.tokenizer.encode(prompt)[-23:]]
        drawn = model.generate(subject.params, subject.config, ids, max_new_tokens=8, temperature=0, stop_ids=[end])
        whole.append(subject.tokenizer.decode([token for token in drawn if token != end]))
    stop = whole[0][2]
    greedy, stopped = {"max_gen_toks": 8}, {"max_gen_toks": 8, "until": [stop], "do_sample": False}
    given = requests(*((prompt, greedy) for prompt in prompts), (prompts[0], stopped))
    assert judged.generate_until(given) == [*whole, whole[0].split(stop)[0]]
    with pytest.raises(EvaluationError, match=r"gen_kwargs must be among .*, got beams"):
        judged.generate_until(requests(("a", {"beams": 3})))
    with pytest.raises(EvaluationError, match="max_gen_toks must be below the model's 32 tokens, got 32"):
        judged.generate_until(requests(("a", {"max_gen_toks": 32})))


@pytest.mark.peers
def test_model_arguments_that_it_does_not_have_are_refused():
    pytest.importorskip("lm_eval")
    from evaluation.lm_eval import DyadLM

    cases: tuple[dict[str, Any], ...] = ({}, {"run": "x", "pretrained": "y"})
    for arguments in cases:
        with pytest.raises(EvaluationError, match="model_args must be run=RUN and of step"):
            DyadLM(**arguments)


@pytest.mark.skipif(find_spec("lm_eval") is not None, reason="says what to install where it is not")
def test_without_lm_eval_the_command_says_what_to_install(capsys):
    assert main(["lm-eval", "--model_args", "run=x", "--tasks", "y"]) == 2
    assert "lm_eval must be installed, got none; pip install" in capsys.readouterr().err
    assert main(["lm-eval", "--help"]) == 0
    said = capsys.readouterr().out
    assert "--model_args run=RUN --tasks" in said and "once it is installed: pip install" in said


TASKS = {
    "choices": "output_type: multiple_choice\ndoc_to_text: context\ndoc_to_choice: choices\ndoc_to_target: answer\n"
    'target_delimiter: ""\nmetric_list: [{metric: acc}]\n',
    "rolling": 'output_type: loglikelihood_rolling\ndoc_to_text: ""\ndoc_to_target: text\n'
    "metric_list: [{metric: bits_per_byte}]\n",
}


@pytest.mark.peers
@pytest.mark.slow
def test_tasks_run_from_the_command_line(run, subject, tmp_path):
    pytest.importorskip("lm_eval")
    lines = [item._asdict() | {"text": text} for item, text in zip(ITEMS, TEXTS[1:], strict=True)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name, content in TASKS.items():
        data = f"dataset_path: json\ndataset_kwargs: {{data_files: {{test: {tmp_path / 'data.jsonl'}}}}}\n"
        (tmp_path / f"{name}.yaml").write_text(f"task: local_{name}\n{data}test_split: test\n{content}")
    words = ["--model_args", f"run={run},max_length=32", "--tasks", "local_choices,local_rolling"]
    words += ["--include_path", str(tmp_path), "--output_path", str(tmp_path / "out.json")]
    subprocess.run(
        [sys.executable, "-m", "evaluation", "lm-eval", *words],
        check=True,
        capture_output=True,
        cwd=ROOT,
        env=os.environ | {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"},
    )
    (written,) = tmp_path.glob("out*.json")
    results = json.loads(written.read_text())["results"]
    scores = score_choices(subject, ITEMS, find_boundaries(subject).begin, max_length=32)
    right = [one.by("total").argmax() == item.answer for one, item in zip(scores, ITEMS, strict=True)]
    assert results["local_choices"]["acc,none"] == np.mean(right)
    documents = take_documents([Document(text, "", "", "") for text in TEXTS[1:]], "")
    (losses,) = measure(subject, documents, find_boundaries(subject), contexts=[32], stride=32)
    bits = losses.text_nll.sum() / np.log(2) / documents.num_bytes.sum()
    assert results["local_rolling"]["bits_per_byte,none"] == pytest.approx(bits, rel=1e-5)
