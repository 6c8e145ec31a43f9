import io

from tokenizer import progress


def report(calls):
    """Feed (seconds, phase, done, total, note) to progress lines; return the lines."""
    stream, now = io.StringIO(), [0.0]
    lines = progress.ProgressLines(stream, clock=lambda: now[0])
    for seconds, *call in calls:
        now[0] = seconds
        lines(*call)
    return stream.getvalue().splitlines()


def test_lines_come_now_and_then_and_at_both_ends_of_a_phase():
    calls = [(t / 10, "read", t, 200) for t in range(201)] + [(20.1, "merge", 0, None, "slow"), (20.2, "merge", 3, 3)]
    assert report(calls) == [
        "read: 0 of 200",
        "read: 50 of 200",
        "read: 100 of 200",
        "read: 150 of 200",
        "read: 200 of 200",
        "merge: 0 (slow)",
        "merge: 3 of 3",
    ]


def test_the_end_is_told_once():
    assert report([(0, "read", 2, 2), (0, "read", 2, 2), (9, "read", 2, 2)]) == ["read: 2 of 2"]


def test_a_stream_that_is_no_terminal_gets_lines():
    stream = io.StringIO()
    with progress.show_progress(stream) as show:
        show("read", 1000, 2000, "note")
    assert stream.getvalue() == "read: 1,000 of 2,000 (note)\n"


def test_a_terminal_gets_a_bar():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with progress.show_progress(stream) as show:
        show("count words", 0, 10)
        show("count words", 10, 10, "done")
        show("merge pairs", 3, None)
    assert "count words" in stream.getvalue() and "10/10" in stream.getvalue() and "merge pairs" in stream.getvalue()
