import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tokenizer
from tokenizer.commands import main


@pytest.fixture
def folder(small_tokenizer, tmp_path):
    small_tokenizer.save(tmp_path / "tokenizer")
    return tmp_path / "tokenizer"


def run(capfdbinary, *arguments):
    code = main([str(argument) for argument in arguments])
    output, errors = capfdbinary.readouterr()
    return code, output, errors.decode()


def test_train_writes_a_tokenizer_and_says_so(capfdbinary, documents, tmp_path):
    rows = [{"text": d.text, "repo": d.repository, "language": d.language} for d in documents]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ["--vocab-size", 290, "--priority", "F*logR", "--special-tokens", "<eod>", "--num-reserved", 0]
    code, output, _ = run(capfdbinary, "train", tmp_path / "a.jsonl", "--output", tmp_path / "out", *options)
    made = tokenizer.Tokenizer.load(tmp_path / "out")
    expected = tokenizer.train(documents, vocab_size=290, priority="F*logR", special_tokens=("<eod>",), num_reserved=0)
    assert code == 0 and made.fingerprint == expected.fingerprint
    assert output.decode() == f"wrote {tmp_path / 'out'}: 290 tokens from 24 documents, {made.fingerprint}\n"


def test_extend_adds_merges_and_says_so(capfdbinary, small_tokenizer, folder, tmp_path):
    (tmp_path / "new.rs").write_text("fn main() { let mut total = measure(&whole); }\n" * 3)
    command = ["extend", folder, tmp_path / "new.rs", "--num-merges", 12, "--priority", "F", "--output"]
    code, output, _ = run(capfdbinary, *command, tmp_path / "out")
    made = tokenizer.Tokenizer.load(tmp_path / "out")
    source = [((tmp_path / "new.rs").read_text(), "r", "rs")]
    expected = tokenizer.extend(small_tokenizer, source, num_merges=12, priority="F")
    assert code == 0 and made.fingerprint == expected.fingerprint
    assert output.decode() == f"wrote {tmp_path / 'out'}: 403 tokens from 1 documents, {made.fingerprint}\n"
    assert made.provenance["extends"]["fingerprint"] == small_tokenizer.fingerprint


def test_a_replaced_tokenizer_is_mentioned(capfdbinary, folder, tmp_path):
    (tmp_path / "text").write_text("some text, some more text")
    code, output, errors = run(capfdbinary, "train", tmp_path / "text", "--output", folder)
    assert code == 0 and output.decode().endswith(", in place of the tokenizer that was there\n")
    assert "\nwarning: no pair is left to merge: the vocabulary has" in errors


def test_encode_then_decode_gives_back_the_bytes(capfdbinary, small_tokenizer, folder, tmp_path):
    text = "naïve\r\n<eod>\0 end"
    (tmp_path / "text").write_bytes(text.encode())
    code, output, _ = run(capfdbinary, "encode", "--tokenizer", folder, tmp_path / "text")
    assert code == 0 and [int(number) for number in output.split()] == small_tokenizer.encode(text)
    (tmp_path / "ids").write_bytes(output)
    assert run(capfdbinary, "decode", "--tokenizer", folder, tmp_path / "ids")[1] == text.encode()


def test_arrays_and_special_tokens_pass_through_files(capfdbinary, small_tokenizer, folder, tmp_path):
    (tmp_path / "text").write_text("a<eod>")
    eod = small_tokenizer.special_tokens["<eod>"]
    ids = tmp_path / "ids.npy"
    source = ["encode", "--tokenizer", folder, tmp_path / "text"]
    code, output, _ = run(capfdbinary, *source, "--output", ids, "--allow-special", "<eod>")
    assert code == 0 and output.decode() == f"wrote {ids}: 2 token ids of 6 characters\n"
    array = np.load(ids)
    assert array.dtype == np.uint16 and array.tolist() == [97, eod]
    run(capfdbinary, "decode", "--tokenizer", folder, ids, "--output", tmp_path / "back")
    assert (tmp_path / "back").read_text() == "a<eod>"


BAD = {
    "no arguments": ([], "COMMAND must be given, got nothing; see python -m tokenizer --help"),
    "unknown command": (["trian"], "got 'trian'"),
    "no output": (["train", "text"], "--output must be given, got nothing; see python -m tokenizer train --help"),
    "no number": (["train", "x", "--output", "o", "--vocab-size", "many"], "--vocab-size must be a whole number, got"),
    "no workers": (["train", "text", "--output", "o", "--workers", "0"], "--workers must be at least 1, got 0"),
    "a setting out of range": (["train", "text", "--output", "o", "--vocab-size", "9"], "error: --vocab-size must be"),
    "missing source": (["train", "missing.txt", "--output", "o"], "error: PATH must be files, folders, globs or"),
    "no documents": (["train", "text", "--output", "o", "--languages", "c"], "see --languages and --held-out-fraction"),
    "nothing to extend": (["extend", "nowhere", "text", "--num-merges", "1", "--output", "o"], "tokenizer must be a"),
    "no merges": (["extend", "tokenizer", "text", "--num-merges", "0", "--output", "o"], "--num-merges must be at"),
    "no threshold": (
        ["extend", "tokenizer", "text", "--num-merges", "1", "--output", "o", "--min-languages", "0"],
        "--min-languages must be at least 1",
    ),
    "unknown priority": (["train", "text", "--output", "o", "--priority", "R"], "--priority must be one of auto, F"),
    "faulty pattern": (["train", "text", "--output", "o", "--pattern", "("], "pattern must be one of none"),
    "output in use": (["train", "text", "--output", "."], "output must be a new folder or that of a tokenizer"),
    "not UTF-8": (["train", "bad", "--output", "o"], "text must be UTF-8, got byte 0xff at 0"),
    "no tokenizer": (["encode", "--tokenizer", "nowhere", "text"], "tokenizer must be a folder with tokenizer.json"),
    "no file": (["encode", "--tokenizer", "tokenizer", "missing"], "file must be readable, got No such file"),
    "bytes": (["encode", "--tokenizer", "tokenizer", "bad"], "text must be UTF-8, got byte 0xff at 0 of bad"),
    "a huge number": (["decode", "--tokenizer", "tokenizer", "huge"], "ids must be 64-bit integers of one dimension"),
    "parts of ids": (
        ["decode", "--tokenizer", "tokenizer", "parts.npy"],
        "ids must be 64-bit integers of one dimension",
    ),
    "letters": (["decode", "--tokenizer", "tokenizer", "letters.npy"], "ids must be 64-bit integers of one dimension"),
    "a cut array": (
        ["decode", "--tokenizer", "tokenizer", "cut.npy"],
        "ids must be integers between spaces or an .npy",
    ),
    "deep JSON": (["import", "deep.json", "--output", "o"], "deep.json must be a JSON file, got one that is nested"),
    "a pattern for JSON": (["import", "deep.json", "--output", "o", "--pattern", "("], "--pattern must be one of none"),
    "a special token that is a byte": (
        ["train", "text", "--output", "o", "--special-tokens", "a"],
        "--special-tokens must",
    ),
    "an endless vocabulary": (
        ["train", "text", "--output", "o", "--vocab-size", "9" * 20],
        "--vocab-size must be at most",
    ),
    "no ids": (["decode", "--tokenizer", "tokenizer", "text"], "ids must be integers between spaces"),
    "unknown special": (["encode", "--tokenizer", "tokenizer", "text", "--allow-special", "<x>"], "got '<x>'"),
    "a file in the way": (["train", "text", "--output", "text/o"], "output must be writable, got Not a directory"),
    "no place": (["decode", "--tokenizer", "tokenizer", "ids", "--output", "no/where"], "output must be writable"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_code_2_and_writes_nothing(capfdbinary, folder, monkeypatch, arguments, message):
    monkeypatch.chdir(folder.parent)
    Path("text").write_text("some text")
    Path("bad").write_bytes(b"\xff")
    Path("ids").write_text("97 98")
    Path("huge").write_text("99999999999999999999")
    Path("deep.json").write_text("[" * 100_000)
    np.save("parts", [1.5, 2.5])
    np.save("letters", np.array(["a", "b"]))
    Path("cut.npy").write_bytes(Path("parts.npy").read_bytes()[:50])
    before = sorted(Path().rglob("*"))
    try:
        code, output, errors = run(capfdbinary, *arguments)
    except SystemExit as exit:
        code, output, errors = exit.code, b"", capfdbinary.readouterr()[1].decode()
    line = [line for line in errors.splitlines() if not line.startswith(("count words", "merge pairs"))]
    assert code == 2 and output == b"" and len(line) == 1 and line[0].startswith("error: ") and message in line[0]
    assert sorted(Path().rglob("*")) == before


def test_ctrl_c_exits_130_and_leaves_nothing(documents, tmp_path):
    for n in range(40):
        (tmp_path / f"{n}.txt").write_text("".join(document.text for document in documents))
    command = [sys.executable, "-m", "tokenizer", "train", str(tmp_path / "*.txt"), "--output", str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(Path(tokenizer.__file__).parents[1])}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("count words: 0 of")
        process.send_signal(signal.SIGINT)
        assert process.stderr.read().splitlines()[-1] == "interrupted: nothing was written"
    assert process.returncode == 130
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".txt"]


def test_help_imports_nothing_heavy():
    code = (
        "import sys, tokenizer.commands as c\ntry: c.main(['train', '--help'])\nexcept SystemExit: print(*sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(tokenizer.__file__).parents[1])}
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    modules = set(output.stdout.splitlines()[-1].split())
    assert "tokenizer.commands" in modules
    assert not modules & {"numpy", "pyarrow", "regex", "rich", "jax"}
    assert "--vocab-size N" in output.stdout and "Default: 32768." in output.stdout


def test_public_names_are_there():
    assert all(getattr(tokenizer, name) is not None for name in tokenizer.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tokenizer.nothing  # noqa: B018
