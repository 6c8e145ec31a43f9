import signal


def pytest_configure() -> None:
    """Let commands that tests start be interrupted, also where a shell has started pytest in the background."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
