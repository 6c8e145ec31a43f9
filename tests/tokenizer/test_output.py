"""Files and folders appear whole, in one step, and never in the place of something that cannot be replaced."""

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tokenizer import Tokenizer, TokenizerError, output_folder
from tokenizer.output import check_file, check_writable, write_file
from tokenizer.output_folder import new_folder, read_folder


def fifo(path):
    os.mkfifo(path)
    return path


def folder(path):
    path.mkdir()
    return path


def loop(path):
    path.symlink_to(path)
    return path


def below_a_file(path):
    path.write_text("file")
    return path / "x"


UNFIT = {
    "a folder": (folder, "Is a directory"),
    "a loop of links": (loop, "Too many levels of symbolic links"),
    "a long name": (lambda path: path.with_name("n" * 300), "File name too long"),
    "below a file": (below_a_file, "Not a directory"),
    "below nothing": (lambda path: path / "x", ""),
    "where nothing can be made": (lambda path: Path("/proc/x"), ""),
}


@pytest.mark.parametrize("act", [check_file, lambda path: write_file(path, b"data")], ids=["check", "write"])
@pytest.mark.parametrize(("make", "reason"), UNFIT.values(), ids=UNFIT)
def test_a_place_unfit_for_a_file_is_refused_in_one_line(tmp_path, act, make, reason):
    path = make(tmp_path / "x")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        TokenizerError, match=f"output must be writable, got {reason}.*; choose another place"
    ) as caught:
        act(path)
    assert "\n" not in str(caught.value) and sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("act", [check_writable, check_file, lambda path: write_file(path, b"data")])
def test_a_place_that_may_only_be_read_is_refused_in_one_line(tmp_path, monkeypatch, act):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("open", "mkdir", "unlink"):
        monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr("io.open", refuse)
    with pytest.raises(TokenizerError, match="output must be writable, got Read-only file system"):
        act(tmp_path / "x")


def test_the_longest_names_that_there_are_can_be_written(small_tokenizer, tmp_path):
    for name in ("n" * 255, "é" * 127):
        write_file(tmp_path / name, b"data")
        assert (tmp_path / name).read_bytes() == b"data"
        (tmp_path / name).unlink()
        small_tokenizer.save(tmp_path / name)
        small_tokenizer.save(tmp_path / name)
        assert Tokenizer.load(tmp_path / name).fingerprint == small_tokenizer.fingerprint


def test_a_link_stays_and_its_target_is_written(small_tokenizer, tmp_path):
    for target in ("old", "new"):
        (tmp_path / f"to-{target}").symlink_to(tmp_path / target)
    (tmp_path / "old").write_text("before")
    for target in ("old", "new"):
        write_file(tmp_path / f"to-{target}", b"data")
        assert (tmp_path / f"to-{target}").is_symlink() and (tmp_path / target).read_bytes() == b"data"
        (tmp_path / target).unlink()
        for _ in range(2):
            small_tokenizer.save(tmp_path / f"to-{target}")
        assert (tmp_path / f"to-{target}").is_symlink() and (tmp_path / target / "tokenizer.json").exists()
    assert len(list(tmp_path.iterdir())) == 4


def test_what_is_no_file_is_written_to_and_stays_what_it_is(tmp_path):
    (tmp_path / "null").symlink_to(os.devnull)
    pipe, received = fifo(tmp_path / "pipe"), []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    for path in (pipe, tmp_path / "null", Path(os.devnull)):
        check_file(path)
        write_file(path, b"data")
    reader.join()
    assert received == [b"data"] and stat.S_ISFIFO(pipe.stat().st_mode)
    assert (tmp_path / "null").is_symlink() and stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    with pytest.raises(TokenizerError, match="output must be writable, got No space left on device"):
        write_file(Path("/dev/full"), b"data")


@pytest.fixture(params=["one step", "two steps"])
def steps(request, monkeypatch):
    if request.param == "two steps":
        monkeypatch.setattr(output_folder, "_exchange", lambda first, second: False)
    return request.param


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_is_replaced_and_nothing_is_left_beside(tmp_path, steps):
    for data in (b"1", b"2", b"3"):
        with new_folder(tmp_path / "x") as made:
            (made / "file").write_bytes(data)
        assert contents(tmp_path / "x") == {"file": data} and list(tmp_path.iterdir()) == [tmp_path / "x"]


WRITER = """
import sys
from pathlib import Path
from tokenizer import output_folder
if sys.argv[2] == "two steps":
    output_folder._exchange = lambda first, second: False
for number in range(60):
    with output_folder.new_folder(Path(sys.argv[1])) as folder:
        for name in "abc":
            (folder / name).write_text(f"{sys.argv[3]} {number}")
"""


def test_writers_of_one_folder_all_succeed_and_readers_see_one_state_of_it(tmp_path, steps):
    with new_folder(tmp_path / "x") as made:
        for name in "abc":
            (made / name).write_text("first")
    command = [sys.executable, "-c", WRITER, str(tmp_path / "x"), steps]
    environment = {**os.environ, "PYTHONPATH": str(Path(output_folder.__file__).parents[1])}
    writers = [subprocess.Popen([*command, name], env=environment, stderr=subprocess.PIPE) for name in ("p", "q")]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        files = read_folder(tmp_path / "x", ("a", "b", "c"))
        assert len(set(files.values())) == 1
        seen.add(files["a"])
    for writer in writers:
        assert writer.communicate()[1] == b"" and writer.returncode == 0
    assert len(seen) > 2 and list(tmp_path.iterdir()) == [tmp_path / "x"]


def test_a_kill_between_two_steps_loses_nothing(tmp_path):
    script = WRITER.replace("range(60)", "range(1)").replace(
        "for number", "import os, pathlib\nrename = pathlib.Path.rename\n"
        "def die(old, new):\n"
        "    rename(old, new)\n"
        "    if str(new).endswith('.old'): os._exit(9)\n"
        "pathlib.Path.rename = die\n"
        "for number", 1
    )  # fmt: skip
    with new_folder(tmp_path / "x") as made:
        (made / "a").write_text("first")
    environment = {**os.environ, "PYTHONPATH": str(Path(output_folder.__file__).parents[1])}
    command = [sys.executable, "-c", script, str(tmp_path / "x"), "two steps", "p"]
    assert subprocess.run(command, env=environment, check=False).returncode == 9
    assert not (tmp_path / "x").exists()
    assert read_folder(tmp_path / "x", ("a",)) == {"a": b"first"}
    with new_folder(tmp_path / "x") as made:
        (made / "a").write_text("second")
    assert read_folder(tmp_path / "x", ("a",)) == {"a": b"second"} and list(tmp_path.iterdir()) == [tmp_path / "x"]


def test_a_file_that_is_missing_is_named(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(FileNotFoundError) as caught:
        read_folder(tmp_path, ("a.npy", "b.npy"))
    assert caught.value.filename == str(tmp_path / "b.npy")
