"""Every command treats every place that it is given, and the standard streams, alike: one line, code 2, no harm."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tokenizer
from tokenizer import artefact
from tokenizer.commands import main

LONG = "n" * 300
WRITING = {
    "train": "train text.txt --vocab-size 290 --output",
    "extend": "extend tok text.txt --num-merges 2 --output",
    "import": "import tok --output",
    "prune": "prune tok --vocab-size 300 --output",
    "curve": "prune tok --vocab-size 300 --on text.txt --output o --curve",
    "encode": "encode --tokenizer tok text.txt --output",
    "encode several": "encode --tokenizer tok text.txt more.txt --output",
    "decode": "decode --tokenizer tok ids --output",
    "export": "export --tokenizer tok --output",
    "export huggingface": "export --tokenizer tok --format huggingface --output",
    "evaluate json": "evaluate tok --on text.txt --json",
    "evaluate page": "evaluate tok --on text.txt --page",
}
ENDING = {"curve": ".json", "encode several": ".npz"}
FOLDERS = ("train", "extend", "import", "prune")
FILES = {name: command for name, command in WRITING.items() if name not in FOLDERS}
READING = {
    "train": f"train {LONG} --output o",
    "extend": f"extend {LONG} text.txt --num-merges 2 --output o",
    "extend on": f"extend tok {LONG} --num-merges 2 --output o",
    "import": f"import {LONG} --output o",
    "import json": f"import {LONG}.json --output o",
    "prune": f"prune {LONG} --vocab-size 300 --output o",
    "encode": f"encode --tokenizer tok {LONG}",
    "encode with": f"encode --tokenizer {LONG} text.txt",
    "decode": f"decode --tokenizer tok {LONG}",
    "export": f"export --tokenizer {LONG} --output o",
    "evaluate": f"evaluate {LONG} --on text.txt",
    "evaluate on": f"evaluate tok --on {LONG}",
    "inspect": f"inspect --tokenizer {LONG} text",
    "inspect on": f"inspect --tokenizer tok --token a --on {LONG}",
}


@pytest.fixture
def place(small_tokenizer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_tokenizer.save("tok")
    Path("text.txt").write_text("some text, more text, and then some")
    Path("more.txt").write_text("other text")
    Path("ids").write_text("97 98")
    return tmp_path


def fails(capfd, command):
    """Run a command that must fail; return its one line of errors."""
    before = {path: path.lstat().st_mtime_ns for path in Path().rglob("*") if not path.is_dir()}
    try:
        code = main(command.split())
    except SystemExit as exit:
        code = exit.code
    output, errors = capfd.readouterr()
    assert code == 2 and output == "" and errors.startswith("error: ") and errors.count("\n") == 1, errors
    assert {path: path.lstat().st_mtime_ns for path in Path().rglob("*") if not path.is_dir()} == before
    return errors


@pytest.mark.parametrize("name", WRITING)
def test_a_place_that_cannot_be_written_is_refused_before_any_work(place, capfd, monkeypatch, name):
    end = ENDING.get(name, "")
    Path("loop" + end).symlink_to("loop" + end)
    for bad in (f"{LONG}{end}", f"text.txt/x{end}", f"/proc/x{end}", f"loop{end}"):
        assert " must be writable, got " in fails(capfd, f"{WRITING[name]} {bad}"), bad

    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "mkdir", refuse)
    assert " must be writable, got Read-only file system: x" in fails(capfd, f"{WRITING[name]} x{end}")


@pytest.mark.parametrize("name", WRITING)
def test_nothing_is_written_into_the_folder_of_a_tokenizer(place, capfd, name):
    end = ENDING.get(name, "")
    for inside in ("tokenizer.json", "new"):
        assert "must not be part of a tokenizer, got" in fails(capfd, f"{WRITING[name]} tok/{inside}{end}")


@pytest.mark.parametrize("name", WRITING)
def test_nothing_takes_the_place_of_what_a_run_a_store_or_a_model_is_made_of(place, owned, capfd, name):
    end = ENDING.get(name, "")
    places = ["run/checkpoints/50/x", "run/checkpoints/x", "run/tokenizer/x", "store/shards/x", "hub/tokenizer.x"]
    if not end:
        places += owned
    for output in places:
        assert " must not be part of a" in fails(capfd, f"{WRITING[name]} {output}{end}"), output


@pytest.mark.parametrize("name", FOLDERS)
def test_a_tokenizer_takes_the_place_of_a_tokenizer_alone(place, owned, small_tokenizer, capfd, name):
    small_tokenizer.save("old")
    small_tokenizer.save("kept-by-hand")
    small_tokenizer.save("exported")
    Path("exported/config.json").write_text("{}")
    Path("exported/model.safetensors").write_text("weights")
    Path("kept-by-hand/notes.txt").write_text("mine")
    Path("other").mkdir()
    Path("other/provenance.json").write_text("{}")
    for output, found in (("exported", "config.json and 1 more"), ("kept-by-hand", "notes.txt;")):
        message = f"must be a new folder or that of a tokenizer and nothing else, got {output} with {found}"
        assert message in fails(capfd, f"{WRITING[name]} {output}")
    for output in ("run", "store", "hub", "coder", "other"):
        assert "must be a new folder or that of a tokenizer, got" in fails(capfd, f"{WRITING[name]} {output}")
    for output in ("run/tokenizer", "run/tokenizer/", "store/tokenizer", "begun/tokenizer"):
        assert "must not be part of a" in fails(capfd, f"{WRITING[name]} {output}")
    assert main([*WRITING[name].split(), "old"]) == 0
    assert main([*WRITING[name].split(), "run/smaller"]) == 0
    assert sorted(path.name for path in Path("old").iterdir()) == sorted(artefact.FILES)


@pytest.mark.parametrize("name", ["evaluate json", "evaluate page", "curve"])
def test_nothing_is_written_among_the_documents(place, capfd, name):
    end = ENDING.get(name, "")
    Path("code").mkdir()
    Path("code/a.py").write_text("import that\n")
    command = FILES[name].replace("text.txt", "code")
    assert "must not lie in a folder that is read" in fails(capfd, f"{command} code/page{end}")


@pytest.mark.parametrize("name", FILES)
def test_what_was_written_before_is_written_again(place, owned, capfd, name):
    output = "run/result" + ENDING.get(name, "")
    for _ in range(2):
        assert main([*FILES[name].split(), output]) == 0
    assert Path(output).stat().st_size > 0


@pytest.mark.parametrize("name", FILES)
def test_a_file_never_takes_the_place_of_a_folder(place, capfd, name):
    end = ENDING.get(name, "")
    Path("folder" + end).mkdir()
    assert "Is a directory" in fails(capfd, f"{FILES[name]} folder{end}")


@pytest.mark.parametrize("name", ["encode", "encode several", "decode", "evaluate json", "evaluate page", "curve"])
def test_no_output_is_an_input(place, capfd, name):
    own = "ids" if name == "decode" else "text.txt"
    command, end = FILES[name], ENDING.get(name, "")
    if end:
        Path(own).rename(own + end)
        command = command.replace(own, own + end)
    Path("link" + end).symlink_to(own + end)
    for output in (f"./{own}{end}", f"link{end}"):
        assert "must not be what is read, got" in fails(capfd, f"{command} {output}")


@pytest.mark.parametrize("name", FILES)
def test_a_link_is_followed_and_a_device_is_written_to(place, capfd, name):
    end = ENDING.get(name, "")
    Path("link" + end).symlink_to("target" + end)
    Path("null" + end).symlink_to(os.devnull)
    for output in ("link" + end, "null" + end):
        assert main([*FILES[name].split(), output]) == 0 and Path(output).is_symlink()
    assert Path("target" + end).stat().st_size > 0 and Path(os.devnull).is_char_device()


@pytest.mark.parametrize("command", READING.values(), ids=READING)
def test_an_input_that_the_system_cannot_name_is_refused_in_one_line(place, capfd, command):
    assert "File name too long" in fails(capfd, command)


def start(command, shell_end="", **options):
    """Run a command as a process, with what a shell is to do with its streams."""
    environment = {**os.environ, "PYTHONPATH": str(Path(tokenizer.__file__).parents[1])}
    line = f'exec "$0" -m tokenizer {command} {shell_end}'
    pipe = subprocess.PIPE
    return subprocess.Popen(
        ["bash", "-c", line, sys.executable], env=environment, stdout=pipe, stderr=pipe, text=True, **options
    )


STREAMS = {
    "full": ("encode --tokenizer tok text.txt", "> /dev/full", "output must be writable, got No space left on"),
    "full of bytes": ("decode --tokenizer tok ids", "> /dev/full", "output must be writable, got No space left on"),
    "closed output": ("encode --tokenizer tok text.txt", ">&-", "standard output must be open"),
    "closed input": ("decode --tokenizer tok", "<&-", "standard input must be open"),
}


@pytest.mark.parametrize(("command", "end", "message"), STREAMS.values(), ids=STREAMS)
def test_a_stream_that_fails_is_told_in_one_line(place, command, end, message):
    process = start(command, end)
    output, errors = process.communicate()
    assert process.returncode == 2 and output == "" and errors.count("\n") == 1 and message in errors


def test_standard_input_may_stand_among_files(place):
    with start("encode --tokenizer tok text.txt - --output x.npz", stdin=subprocess.PIPE) as process:
        process.communicate("from elsewhere")
    made = tokenizer.Tokenizer.load("tok")
    with np.load("x.npz") as arrays:
        texts = [
            made.decode(arrays["ids"][a:b]) for a, b in zip(arrays["offsets"], arrays["offsets"][1:], strict=False)
        ]
    assert process.returncode == 0 and texts == [Path("text.txt").read_text(), "from elsewhere"]


@pytest.mark.parametrize("left", ["1", *(pytest.param(left, marks=pytest.mark.slow) for left in ("2", "12"))])
def test_files_are_written_even_when_nobody_reads_what_is_printed(place, left):
    with start("evaluate tok --on text.txt --json out.json --page out.html") as process:
        assert process.stdout is not None and process.stderr is not None
        if "1" in left:
            process.stdout.close()
        if "2" in left:
            process.stderr.close()
        process.wait()
    assert process.returncode == 0
    assert json.loads(Path("out.json").read_text())["documents"] == 1 and Path("out.html").stat().st_size > 1000


def test_ctrl_c_ends_all_processes_in_one_line(place):
    for number in range(8):
        Path(f"{number}.py").write_text("the quick brown fox " * 250_000)
    with start("train *.py --output o --vocab-size 300 --workers 3", start_new_session=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("count words: 0 of")
        os.killpg(process.pid, signal.SIGINT)
        errors = process.stderr.read().splitlines()
    assert process.returncode == 130 and errors[-1] == "interrupted: nothing was written"
    assert all(line.startswith("count words: ") for line in errors[:-1]) and not Path("o").exists()
