"""Files to ids: as the texts are encoded, whatever fits into memory at once."""

import numpy as np
import pytest

from tokenizer import TokenizerError, text_files
from tokenizer.commands import main

TEXTS = ["naïve text\r\n", "", "a\0b<eod>", "東京 " * 50, "\ufeffmarked", "\r\n\n\r"]


@pytest.fixture
def paths(tmp_path):
    for number, text in enumerate(TEXTS):
        (tmp_path / f"{number}.txt").write_bytes(text.encode())
    return [tmp_path / f"{number}.txt" for number in range(len(TEXTS))]


@pytest.mark.parametrize("block", [1, 30, 10**9])
def test_files_are_encoded_as_their_texts(small_tokenizer, paths, monkeypatch, block):
    monkeypatch.setattr(text_files, "BLOCK_CHARACTERS", block)
    calls = []
    ids, offsets = small_tokenizer.encode_files(paths, progress=lambda *call: calls.append(call))
    expected_ids, expected_offsets = small_tokenizer.encode_batch(TEXTS)
    assert np.array_equal(ids, expected_ids) and ids.dtype == np.uint16
    assert np.array_equal(offsets, expected_offsets) and offsets.dtype == np.int64
    assert calls[-1] == ("encode files", 6, 6)


def test_special_tokens_are_recognised_when_they_are_allowed(small_tokenizer, paths):
    ids, offsets = small_tokenizer.encode_files(paths, allowed_special=["<eod>"])
    for text, first, last in zip(TEXTS, offsets, offsets[1:], strict=False):
        assert ids[first:last].tolist() == small_tokenizer.encode(text, allowed_special=["<eod>"])


def test_no_files_are_no_documents(small_tokenizer):
    ids, offsets = small_tokenizer.encode_files([])
    assert ids.size == 0 and offsets.tolist() == [0]


def test_a_bad_file_is_named_with_its_byte(small_tokenizer, paths, tmp_path):
    (tmp_path / "bad").write_bytes(b"abc\xffd")
    with pytest.raises(TokenizerError, match=r"text must be UTF-8, got byte 0xff at 3 of .*/bad$"):
        small_tokenizer.encode_files([*paths, tmp_path / "bad"])
    with pytest.raises(TokenizerError, match=r"file must be readable, got No such file or directory: .*/none$"):
        small_tokenizer.encode_files([tmp_path / "none"])


def test_the_command_writes_ids_and_offsets_of_several_files(small_tokenizer, paths, tmp_path, capsys):
    small_tokenizer.save(tmp_path / "t")
    command = ["encode", "--tokenizer", str(tmp_path / "t"), "--output", str(tmp_path / "o.npz")]
    assert main([*command, *map(str, paths)]) == 0
    ids, offsets = small_tokenizer.encode_batch(TEXTS)
    assert capsys.readouterr().out == f"wrote {tmp_path / 'o.npz'}: {len(ids)} token ids of 6 files\n"
    with np.load(tmp_path / "o.npz") as arrays:
        assert np.array_equal(arrays["ids"], ids) and np.array_equal(arrays["offsets"], offsets)
    assert main([*command, str(paths[0])]) == 0
    with np.load(tmp_path / "o.npz") as arrays:
        assert arrays["offsets"].tolist() == [0, len(small_tokenizer.encode(TEXTS[0]))]


def test_several_files_need_an_archive(small_tokenizer, paths, tmp_path, capsys):
    small_tokenizer.save(tmp_path / "t")
    assert main(["encode", "--tokenizer", str(tmp_path / "t"), *map(str, paths)]) == 2
    assert "error: --output must end in .npz for several files, got nothing" in capsys.readouterr().err
