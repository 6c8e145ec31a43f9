import pytest

from benchmarks.document import write_part


def test_a_part_is_replaced_and_the_rest_stays(tmp_path):
    document = tmp_path / "a.md"
    document.write_text("# Title\n\n<!-- measured: one -->\nold\n<!-- end of one -->\n\nWords.\n")
    write_part(document, "one", "new")
    write_part(document, "two", "more")
    parts = "<!-- measured: one -->\n\nnew\n\n<!-- end of one -->\n\nWords.\n"
    assert document.read_text() == f"# Title\n\n{parts}\n<!-- measured: two -->\n\nmore\n\n<!-- end of two -->\n"


def test_writing_the_same_part_again_changes_nothing(tmp_path):
    write_part(tmp_path / "a.md", "one", "text")
    first = (tmp_path / "a.md").read_text()
    write_part(tmp_path / "a.md", "one", "text")
    assert (tmp_path / "a.md").read_text() == first


def test_a_part_that_does_not_end_is_refused(tmp_path):
    (tmp_path / "a.md").write_text("<!-- measured: one -->\nold\n\nWords.\n")
    with pytest.raises(ValueError, match="part must end with <!-- end of one -->, got none"):
        write_part(tmp_path / "a.md", "one", "new")
    assert (tmp_path / "a.md").read_text().endswith("Words.\n")
