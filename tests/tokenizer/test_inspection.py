import io
import json
from collections import Counter

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from tokenizer import Tokenizer, TokenizerError, train
from tokenizer.commands import main
from tokenizer.counting.counts import count_words
from tokenizer.measures.encoded_words import encode_counts
from tokenizer.measures.history import history
from tokenizer.measures.inspection import Inspector
from tokenizer.measures.inspection_report import intermediates_lines, text_lines, token_json, token_lines
from tokenizer.measures.merge_graph import count_made, make_graph
from tokenizer.measures.occurrences import MOST_STANDING, survey
from tokenizer.splitting.patterns import PATTERNS


@pytest.fixture(scope="module")
def with_own_ids(small_tokenizer):
    """The same tokens and merges under other ids."""
    ids = np.random.default_rng(1).permutation(small_tokenizer.vocab_size)
    specials = list(small_tokenizer.special_tokens)
    return Tokenizer(small_tokenizer.pairs, specials, ids=ids, merges=small_tokenizer.merges)


@pytest.fixture(scope="module", params=["in order", "own ids"])
def inspector(request, small_tokenizer, with_own_ids):
    return Inspector(small_tokenizer if request.param == "in order" else with_own_ids)


@given(st.text(st.sampled_from("ab1 '\n\tſé🎉東\0="), max_size=30))
def test_words_are_those_of_the_expression_and_tokens_those_of_the_encoder(small_tokenizer, text):
    split = Inspector(small_tokenizer).split(text)
    assert [word.data.decode() for word in split.words] == regex.findall(PATTERNS["gpt4"], text)
    assert list(split.ids) == small_tokenizer.encode(text)
    assert all(small_tokenizer.decode_bytes(word.ids) == word.data for word in split.words)
    assert split.num_bytes == len(text.encode())


def test_parts_join_to_the_token_and_everything_that_holds_a_token_is_found(inspector):
    tokenizer = inspector.tokenizer
    reports = [inspector.describe(number) for number in tokenizer.ids.tolist()]
    trees = {}  # by id, all that is below the token: parts come before what is made of them
    for report in reports:
        trees[report.id] = {part for child in report.parts or () for part in {child} | trees[child]}
    for report in reports:
        if report.parts:
            left, right = (tokenizer.token_bytes[part] for part in report.parts)
            assert left + right == report.data == tokenizer.token_bytes[report.id]
        part_of = tuple(other.id for other in reports if report.id in (other.parts or ()))
        assert inspector.part_of(report.id) == part_of
        assert inspector.contained_in(report.id) == tuple(other.id for other in reports if report.id in trees[other.id])
        assert report.is_leaf == (report.merge is not None and not part_of)


def test_numbers_of_a_merge_are_those_of_its_training(inspector, small_tokenizer):
    merges = small_tokenizer.merges
    for merge in (0, 17, len(small_tokenizer.pairs) - 1):
        report = inspector.describe(int(inspector.tokenizer.ids[256 + merge]))
        assert report.merge == merge and report.kind == "learned"
        numbers = (report.frequency, report.repositories, report.languages)
        assert numbers == (merges.frequency[merge], merges.repositories[merge], merges.languages[merge])
    assert inspector.describe(inspector.tokenizer.ids[97]).kind == "byte"
    assert inspector.describe(inspector.tokenizer.special_tokens["<eod>"]).kind == "special"


def test_numbers_of_an_imported_tokenizer_are_unknown(small_tokenizer):
    report = Inspector(Tokenizer(small_tokenizer.pairs)).describe(300)
    assert (report.frequency, report.repositories, report.languages) == (None, None, None)


def test_tokens_are_found_by_id_by_bytes_and_by_name(inspector):
    tokenizer = inspector.tokenizer
    for name, token in {"␣": b" ", "a": b"a", "\\xe6": b"\xe6", "\\n": b"\n", "aa": b"aa"}.items():
        assert tokenizer.token_bytes[inspector.find(name)] == token
    assert inspector.find("300") == 300
    assert inspector.find("<eod>") == tokenizer.special_tokens["<eod>"]
    for name in ("391", "zzz", "\\xff\\xfe", ""):
        with pytest.raises(TokenizerError, match="token must be an id below 391, the bytes of a token"):
            inspector.find(name)


@pytest.mark.parametrize("which", ["small_tokenizer", "with_own_ids"])
def test_occurrences_are_those_of_encoded_documents(request, documents, which):
    tokenizer = request.getfixturevalue(which)
    by_source, words, num_tokens = Counter(), Counter(), 0
    for document in documents:
        for word in regex.findall(PATTERNS["gpt4"], document.text):
            ids = tokenizer.encode(word)
            num_tokens += len(ids)
            for number in ids:
                by_source[number, 0, document.repository] += 1
                by_source[number, 1, document.language] += 1
            for number in set(ids):
                words[number, word.encode()] += 1
    asked = [*tokenizer.encode(documents[1].text)[:30], tokenizer.special_tokens["<eod>"]]
    found = survey(tokenizer, asked, iter(documents))
    assert found.num_documents == len(documents) and found.num_tokens == num_tokens
    assert set(found.occurrences) == set(asked)
    for number, occurrences in found.occurrences.items():
        expected = [
            {name: count for (token, its_kind, name), count in by_source.items() if (token, its_kind) == (number, kind)}
            for kind in (0, 1)
        ]
        assert [dict(occurrences.repositories), dict(occurrences.languages)] == expected
        assert occurrences.count == sum(expected[0].values())
        counts = [count for _, count in occurrences.repositories]
        assert counts == sorted(counts, reverse=True)
        its_words = {word: count for (token, word), count in words.items() if token == number}
        assert len(occurrences.words) == min(10, len(its_words))
        assert all(its_words[word] == count for word, count in occurrences.words)
        assert [count for _, count in occurrences.words] == sorted(its_words.values(), reverse=True)[:10]


def test_what_is_counted_does_not_depend_on_blocks(small_tokenizer, documents, monkeypatch):
    asked = small_tokenizer.encode(documents[0].text)
    whole = survey(small_tokenizer, asked, documents)
    monkeypatch.setattr("tokenizer.measures.occurrences.BLOCK_CHARACTERS", 100)
    assert survey(small_tokenizer, asked, documents) == whole


def test_a_token_is_made_for_itself_and_for_all_that_holds_it(small_tokenizer):
    inspector = Inspector(small_tokenizer)
    frequencies = np.random.default_rng(2).integers(0, 9, 256 + len(small_tokenizer.pairs))

    def count(token, inside):
        parts = inspector.describe(inside).parts
        return (token == inside) + sum(count(token, part) for part in parts or ())

    made = count_made(small_tokenizer.pairs, frequencies)
    for token in (32, 97, 256, 257, 260, 300, 379):
        assert made[token] == sum(count(token, other) * frequencies[other] for other in range(380))


@pytest.mark.parametrize("priority", ["F", "F*logR*L"])
def test_on_its_training_documents_a_token_is_made_as_often_as_its_merge_was_counted(documents, priority):
    tokenizer = train(documents, vocab_size=350, priority=priority)
    words = count_words(documents, tokenizer.pattern)
    made = count_made(tokenizer.pairs, encode_counts(words, tokenizer.pairs).frequencies(256 + len(tokenizer.pairs)))
    is_double = tokenizer.pairs[:, 0] == tokenizer.pairs[:, 1]  # F counts aaa twice, of which one is merged
    counted = history(tokenizer).frequency
    assert np.array_equal(made[256:][~is_double], counted[~is_double])
    assert (made[256:] <= counted).all() and 0 < is_double.sum() < len(is_double) / 2


def test_made_first_then_merged_on_is_intermediate():
    text = "abc\n" * 500 + "ab"
    tokenizer = train([(text, "r", "x")], vocab_size=258, special_tokens=(), num_reserved=0, priority="F")
    assert tokenizer.token_bytes[256:] == [b"ab", b"abc"]
    found = survey(tokenizer, [256], [(text, "r", "x")])
    assert [tuple(token) for token in found.intermediates] == [(256, 1, 501, 501)]
    lines = list(intermediates_lines(found, Inspector(tokenizer), 5))
    assert lines[0].startswith("1 tokens stay in less than 1%") and lines[2].split() == ["ab", "256", "501", "1", "501"]
    assert MOST_STANDING == 0.01


def test_a_graph_of_no_merges_is_empty():
    graph = make_graph(np.zeros((0, 2), np.int32))
    assert graph.made_of(97) == [] and graph.containing(97) == []


def test_lines_show_every_word_token_and_part(small_tokenizer, documents):
    inspector = Inspector(small_tokenizer)
    head, *lines = text_lines(inspector.split("The\tfox"), inspector)
    assert head.startswith("7 bytes, 2 words, ") and head.endswith(": The\\x09fox")
    assert [line.split()[0] for line in lines] == ["The", "\\tfox"]
    report = inspector.describe(inspector.find("aaaa"))
    lines = list(token_lines(report, inspector))
    assert lines[0].startswith(f"token {report.id}  aaaa  4 bytes, merge {report.id - 256}")
    assert f"{report.frequency:,}" in lines[2] and lines[3].split()[:2] == ["├", "aa"]
    assert lines[-2].split()[:4] == ["└", "aa", "(as", "above)"] and lines[-1].startswith("  part of ")
    space = inspector.find("␣")
    found = survey(small_tokenizer, [space], documents)
    lines = list(token_lines(inspector.describe(space), inspector, found))
    assert f"occurs {found.occurrences[space].count} times" in lines[2] and "languages: " in lines[5]
    assert lines[-1] == "  words: ␣ " + str(dict(found.occurrences[space].words)[b" "])


def test_long_tokens_do_not_exhaust_the_stack():
    pairs = [[97, 97 + 1], *([256 + n, 97] for n in range(1100))]
    inspector = Inspector(Tokenizer(np.array(pairs), pattern="none"))
    report = inspector.describe(1356)
    assert len(list(token_lines(report, inspector))) > 2200
    assert len(token_json(report, inspector)["tree"]) == 1102


@pytest.fixture
def folder(small_tokenizer, documents, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_tokenizer.save("tokenizer")
    rows = [{"text": d.text, "repository": d.repository, "language": d.language} for d in documents]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_the_command_prints_what_is_found(folder, capsys, small_tokenizer, documents):
    arguments = ["inspect", "--tokenizer", "tokenizer", "--token", "aaaa", "--on", "a.jsonl", "--intermediates", "3"]
    assert main([*arguments, "--", "The fox"]) == 0
    output = capsys.readouterr().out
    inspector = Inspector(small_tokenizer)
    number = inspector.find("aaaa")
    ids = [number, *small_tokenizer.encode("The fox")]
    found = survey(small_tokenizer, ids, documents)
    for lines in (
        text_lines(inspector.split("The fox"), inspector),
        *(token_lines(inspector.describe(number), inspector, found) for number in ids),
        intermediates_lines(found, inspector, 3),
    ):
        assert "\n".join(lines) in output


def test_the_command_prints_json_that_names_everything(folder, capsys, small_tokenizer, documents):
    arguments = ["inspect", "The fox", "--tokenizer", "tokenizer", "--on", "a.jsonl", "--token", "<eod>", "--json"]
    assert main([*arguments, "--intermediates", "2"]) == 0
    content = json.loads(capsys.readouterr().out)
    ids = small_tokenizer.encode("The fox")
    assert content["fingerprint"] == small_tokenizer.fingerprint
    assert content["texts"][0]["ids"] == ids
    assert [token["id"] for token in content["tokens"]] == [small_tokenizer.special_tokens["<eod>"], *ids]
    found = survey(small_tokenizer, ids, documents)
    for token in content["tokens"][1:]:
        assert bytes.fromhex(token["hex"]) == small_tokenizer.token_bytes[token["id"]]
        assert token["occurrences"]["repositories"] == dict(found.occurrences[token["id"]].repositories)
    assert content["documents"]["documents"] == len(documents)
    assert len(content["documents"]["intermediates"]) <= 2


def test_a_terminal_that_knows_few_characters_gets_escapes(folder, monkeypatch):
    output = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(output, "ascii"))
    assert main(["inspect", "a é", "--tokenizer", "tokenizer"]) == 0
    assert output.getvalue().startswith(b"4 bytes, 2 words, ")
    assert b"\\u2423" in output.getvalue() and output.getvalue().isascii()


def test_help_can_be_shown_on_any_terminal(capsys):
    with pytest.raises(SystemExit):
        main(["inspect", "--help"])
    assert capsys.readouterr().out.isascii()


BAD = {
    "nothing to inspect": ([], "TEXT, --token or --intermediates must be given, got none"),
    "no such token": (["--token", "zzz"], "token must be an id below 391"),
    "id out of range": (["--token", "391"], "token must be an id below 391"),
    "not Unicode": (["a\udcff"], "got the lone surrogate U+DCFF"),
    "intermediates of nothing": (["--intermediates", "3"], "--on must name documents for --intermediates, got none"),
    "missing documents": (["a", "--on", "b.jsonl"], "got 'b.jsonl'"),
    "empty documents": (["a", "--on", "empty"], "documents must hold some text to measure, got none"),
    "a misspelt option": (["--tokn", "a"], "did you mean --token"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_code_2(folder, capsys, arguments, message):
    (folder / "empty").touch()
    try:
        code = main(["inspect", "--tokenizer", "tokenizer", *arguments])
    except SystemExit as exit:
        code = exit.code
    output, errors = capsys.readouterr()
    lines = [line for line in errors.splitlines() if not line.startswith("read documents")]
    assert code == 2 and not output and len(lines) == 1
    assert lines[0].startswith("error: ") and message in lines[0]
