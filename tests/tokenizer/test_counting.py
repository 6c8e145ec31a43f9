import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenizer
from tokenizer.counting import counter
from tokenizer.counting import counts as counting
from tokenizer.counting import processes as processes_module
from tokenizer.counting.counts import count_words
from tokenizer.errors import TokenizerError
from tokenizer.splitting.patterns import PATTERNS

DOCUMENTS = st.lists(
    st.tuples(st.text("ab 1é\n", max_size=20), st.sampled_from(["r", "s", ""]), st.sampled_from(["x", "y", ""])),
    max_size=12,
)

ROOT = Path(__file__).parents[2]


def tables(counts):
    """The counts as plain dictionaries: word -> count, repositories, languages."""
    data = counts.data.tobytes()
    words = [data[a:b].decode() for a, b in zip(counts.offsets[:-1], counts.offsets[1:], strict=True)]
    repositories = {
        word: {counts.repository_names[r] for r in counts.repositories[a:b]}
        for word, a, b in zip(words, counts.repository_offsets[:-1], counts.repository_offsets[1:], strict=True)
    }
    languages = {
        word: {name for number, name in enumerate(counts.language_names) if int(bits[number // 64]) >> number % 64 & 1}
        for word, bits in zip(words, counts.languages, strict=True)
    }
    return words, dict(zip(words, counts.counts.tolist(), strict=True)), repositories, languages


def reference_tables(documents):
    counted, repositories, languages = Counter(), defaultdict(set), defaultdict(set)
    for text, repository, language in documents:
        for word in regex.findall(PATTERNS["gpt4"], text):
            counted[word] += 1
            repositories[word].add(repository)
            languages[word].add(language)
    return list(counted), dict(counted), dict(repositories), dict(languages)


def assert_same(first, second):
    for name in ("data", "offsets", "counts", "repository_offsets", "repositories", "languages"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    assert first.repository_names == second.repository_names
    assert first.language_names == second.language_names


@settings(deadline=None)
@given(DOCUMENTS)
def test_counts_and_sources_are_those_of_plain_dictionaries(documents):
    assert tables(count_words(documents, "gpt4")) == reference_tables(documents)


def test_more_than_64_languages_are_kept_apart():
    documents = [(f"all w{number % 150}", "r", f"l{number}") for number in range(300)]
    assert tables(count_words(documents, "gpt4")) == reference_tables(documents)


def test_counts_do_not_depend_on_batches(monkeypatch):
    documents = [(f"a b{number % 7} c{number % 30}\n", f"r{number % 5}", f"l{number % 3}") for number in range(200)]
    whole = count_words(documents, "gpt4")
    monkeypatch.setattr(counting, "_BATCH_CHARACTERS", 20)
    monkeypatch.setattr(counter, "_ENTRIES_BEFORE_SORT", 10)
    assert_same(count_words(documents, "gpt4"), whole)


@settings(deadline=None)
@given(DOCUMENTS, st.lists(st.integers(0, 2), min_size=12, max_size=12), st.integers(1, 40))
def test_counters_that_share_the_batches_in_any_way_add_up_to_the_whole(documents, owners, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_BATCH_CHARACTERS", size)
        batches = list(counting._batches(documents))
    counters = [counter.Counter("gpt4") for _ in range(3)]
    for batch, owner in zip(batches, owners, strict=False):
        counters[owner].add(batch)
    first, *others = counters
    for other in others:
        first.absorb(other.part())
    assert_same(first.result(), count_words(documents, "gpt4"))


@pytest.mark.parametrize("pattern", ["gpt4", r"[a-zé'\"]+|\d"])
def test_counts_do_not_depend_on_processes(monkeypatch, pattern):
    monkeypatch.setattr(counting, "_BATCH_CHARACTERS", 300)
    documents = [(f"é b{number % 7} c{number % 30}\n", f"r{number % 5}", f"l{number % 3}") for number in range(400)]
    for processes in (2, 3):
        assert_same(count_words(documents, pattern, processes=processes), count_words(documents, pattern))


def test_more_processes_than_batches_and_none_at_all():
    for documents in ([], [("", "r", "l")], [("a", "r", "l")]):
        assert_same(count_words(documents, "gpt4", processes=3), count_words(documents, "gpt4"))


def test_the_first_faulty_batch_is_named_whoever_finds_it(monkeypatch):
    monkeypatch.setattr(counting, "_BATCH_CHARACTERS", 100)
    documents = [(f"a word, {number} times " + "\ud800" * (number > 50), "r", "l") for number in range(200)]
    for processes in (1, 2, 3):
        with pytest.raises(TokenizerError, match=r"lone surrogate U\+D800 at character 17 of document 51;"):
            count_words(documents, "gpt4", processes=processes)


def kept_workers(monkeypatch):
    """A list that gets the processes that are started."""
    started, start = [], processes_module._start_worker
    monkeypatch.setattr(
        processes_module, "_start_worker", lambda pattern: started.append(start(pattern)) or started[-1]
    )
    return started


def test_a_process_that_is_killed_is_told_in_a_line(monkeypatch):
    monkeypatch.setattr(counting, "_BATCH_CHARACTERS", 10)
    started = kept_workers(monkeypatch)

    def documents():
        for number in range(100):
            if number == 50:
                started[0].process.kill()
                started[0].process.wait()
            yield "a long word " * 10, "r", "l"

    with pytest.raises(TokenizerError, match=r"counting process must last until it is done, got exit status -9;"):
        count_words(documents(), "gpt4", processes=2)


def test_documents_that_cannot_be_read_end_all_processes(monkeypatch):
    started = kept_workers(monkeypatch)

    def documents():
        yield "a", "r", "l"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        count_words(documents(), "gpt4", processes=3)
    assert len(started) == 2 and all(worker.process.returncode is not None for worker in started)


def test_a_program_without_a_main_guard_may_count_in_processes(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "from tokenizer.counting.counts import count_words\n"
        "print(count_words([('a b a', 'r', 'l')], 'gpt4', processes=2).counts.tolist())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(tokenizer.__file__).parents[1])}
    output = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True, env=environment)
    assert output.stdout == "[1, 1, 1]\n" and output.stderr == ""


def test_progress_ends_with_the_total():
    calls = []
    count_words([("ab", "r", "l"), ("c", "r", "l")], "gpt4", progress=lambda *call: calls.append(call))
    assert calls[-1] == ("count words", 3, 3)


def plain_limited(documents, period, max_words):
    """The rule in dictionaries: after every `period` characters, the rarest words go until half are left."""
    counted, left_out, characters = {}, [0, 0, 0], 0

    def forget(limit):
        if len(counted) <= limit:
            return
        lowest = next(c for c in sorted(counted.values()) if sum(n > c for n in counted.values()) <= limit)
        gone = [word for word, count in counted.items() if count <= lowest]
        left_out[0] += len(gone)
        left_out[1] += sum(counted.pop(word) for word in gone)
        left_out[2] += lowest

    for text, *_ in documents:
        for word in regex.findall(PATTERNS["gpt4"], text):
            counted[word] = counted.get(word, 0) + 1
        characters += len(text)
        if characters >= period:
            characters = 0
            if len(counted) > max_words:
                forget(max_words // 2)
    forget(max_words)
    return counted, tuple(left_out)


@settings(deadline=None)
@given(DOCUMENTS, st.integers(1, 30), st.integers(1, 6), st.integers(1, 40))
def test_a_limit_on_words_leaves_out_the_rarest_whatever_the_batches(documents, period, max_words, batch):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_PERIOD_CHARACTERS", period)
        patch.setattr(counting, "_BATCH_CHARACTERS", batch)
        limited = count_words(documents, "gpt4", max_words=max_words)
    expected, left_out = plain_limited(documents, period, max_words)
    words, counts, repositories, languages = tables(limited)
    assert counts == expected and words == list(expected) and limited.left_out == left_out
    _, whole, all_repositories, all_languages = reference_tables(documents)
    assert all(whole[word] - left_out[2] <= counts[word] <= whole[word] for word in words)
    assert sum(whole.values()) == sum(counts.values()) + left_out[1]
    assert all(repositories[word] <= all_repositories[word] and repositories[word] for word in words)
    assert all(languages[word] <= all_languages[word] and languages[word] for word in words)


def test_a_limit_that_is_never_passed_changes_nothing():
    documents = [(f"a b{number % 7} c{number % 30}\n", f"r{number % 5}", f"l{number % 3}") for number in range(200)]
    assert_same(count_words(documents, "gpt4", max_words=1000), count_words(documents, "gpt4"))


@pytest.mark.slow
def test_a_limit_gives_the_same_words_for_any_number_of_processes(monkeypatch):
    documents = [(f"a b{number % 7} c{number}\n", f"r{number % 5}", f"l{number % 3}") for number in range(400)]
    monkeypatch.setattr(counting, "_PERIOD_CHARACTERS", 700)
    alone = count_words(documents, "gpt4", max_words=40)
    assert alone.left_out.words > 100
    for batch in (100, 900):
        monkeypatch.setattr(counting, "_BATCH_CHARACTERS", batch)
        for processes in (1, 2, 3):
            limited = count_words(documents, "gpt4", max_words=40, processes=processes)
            assert_same(limited, alone)
            assert limited.left_out == alone.left_out


class Name(str):
    """A class that no other process knows."""


def test_texts_of_classes_of_the_callers_are_counted_as_texts():
    documents = [(Name(f"def name_{number}"), Name("repository"), Name("python")) for number in range(50)]
    plain = [tuple(map(str.__str__, document)) for document in documents]
    assert_same(count_words(documents, "gpt4", processes=2), count_words(plain, "gpt4"))


@pytest.mark.slow
def test_a_process_may_print_and_a_pattern_may_be_long(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("print('hello from the site')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(counting, "_BATCH_CHARACTERS", 100)
    pattern = "|".join(f"word{number}x" for number in range(20_000)) + r"|\w+|\W"
    documents = [(f"word{number}x and more", "r", "l") for number in range(100)]
    assert_same(count_words(documents, pattern, processes=2), count_words(documents, pattern))


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux to end processes")
@pytest.mark.parametrize("moment", ["in an expression", "before it has begun"])
def test_no_process_outlives_its_parent_even_in_a_slow_expression(moment, tmp_path, monkeypatch):
    program = (
        "import sys, tokenizer.counting.processes as processes, tokenizer.counting.counts as counting\n"
        "counting._BATCH_CHARACTERS, start = 10, processes._start_worker\n"
        "def shown(pattern):\n"
        "    worker = start(pattern); print(worker.process.pid, flush=True); return worker\n"
        "processes._start_worker = shown\n"
        "documents = (('a' * 50 + 'c', 'r', 'l') for _ in range(9))\n"
        "counting.count_words(documents, '(?:a|aa)+b|.', processes=2)\n"
    )
    if moment == "before it has begun":
        (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(4)")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=ROOT)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    time.sleep(1)  # until it has a batch; no matter if it has none
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while _lives(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = _lives(worker)
    if left:
        os.kill(worker, signal.SIGKILL)
    assert not left


def _lives(process):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def test_a_changed_folder_does_not_lead_processes_astray(tmp_path):
    program = (
        "import sys, os; sys.path.insert(0, ''); from tokenizer.counting.counts import count_words\n"
        f"os.chdir({str(tmp_path)!r})\n"
        "print(len(count_words([('a b', 'r', 'l')] * 9, 'gpt4', processes=2).counts))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", program]
    output = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert output.stdout == "2\n"
