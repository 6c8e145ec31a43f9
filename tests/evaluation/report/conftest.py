"""Pages opened in a real browser, without a window: what it makes of them, and what it complains of."""

import html
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--dump-dom",
)
SECONDS = 120
POLICY = re.compile(r"script-src [^\"]*")


class Opened(NamedTuple):
    """A page after its scripts have run."""

    dom: str
    console: list[str]
    """All that the browser said of the page or the page said, errors among them."""
    value: Any
    """What the test's script returned."""


@pytest.fixture(scope="session")
def browser() -> str:
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    pytest.skip(f"no browser to open pages with: none of {', '.join(BROWSERS)} is installed")


@pytest.fixture
def browse(browser, tmp_path) -> Callable[..., Opened]:
    """browse(page, script) -> Opened; the script, JavaScript that returns a value, runs after those of the page."""

    def open_page(page: str, script: str = "", *options: str) -> Opened:
        if script:
            # Only the page's own scripts are allowed to run in it.
            page = POLICY.sub("script-src 'unsafe-inline'", page, count=1)
            content = f"document.title = JSON.stringify((() => {{ {script} }})() ?? null)"
            page = page.replace("</body>", f"<script>{content}</script></body>")
        path = tmp_path / "opened.html"
        path.write_text(page, encoding="utf-8")
        command = [browser, *OPTIONS, f"--user-data-dir={tmp_path / 'profile'}", *options, path.as_uri()]
        dom, log = _run(command)
        console = [line for line in log.splitlines() if ":CONSOLE" in line]
        value = json.loads(html.unescape(re.findall(r"<title>(.*?)</title>", dom, re.DOTALL)[0])) if script else None
        return Opened(dom, console, value)

    return open_page


def _run(command: list[str]) -> tuple[str, str]:
    """Run a browser to its end, or end it and all that it started."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, encoding="utf-8", start_new_session=True) as process:
        try:
            return process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
