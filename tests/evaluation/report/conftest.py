"""Pages opened in a real browser, without a window: what it makes of them, and what it complains of."""

import html
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dataservice import Bucket
from model import LlamaConfig
from tokenizer import Tokenizer
from training.config import Config, config_yaml
from training.evaluation_step import position_starts
from training.phases import Kind
from training.records import StepRecord
from training.settings import TrainConfig
from training.summary import Summary

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
POLICY = re.compile(r'(http-equiv="Content-Security-Policy" content="[^"]*script-src )[^"]*')


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
    """browse(page, script) -> Opened; the script, JavaScript that returns a value, runs when all is loaded."""

    def open_page(page: str, script: str = "", *options: str) -> Opened:
        if script:
            # Only the page's own scripts are allowed to run in it.
            page = POLICY.sub(r"\1'unsafe-inline'", page, count=1)
            run = f"document.title = JSON.stringify((() => {{ {script} }})() ?? null)"
            content = f"addEventListener('load', () => {{ {run} }})"
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
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, encoding="utf-8", start_new_session=True) as process:
        try:
            return process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise


@pytest.fixture
def quick_plots(monkeypatch) -> None:
    """Plots that hold their words alone: drawing takes a fifth of a second each."""

    def draw(title: str, paint: object, *, names: Any = (), x_label: str = "", y_label: str = "", **_: Any) -> str:
        return f"<svg><title>{html.escape(' | '.join([title, x_label, y_label, *names]))}</title></svg>"

    for module in ("tokenizer.measures.plots", "evaluation.report.curriculum_plot"):
        monkeypatch.setattr(f"{module}.draw", draw)


BUCKETS = (Bucket(64, True), Bucket(64, False), Bucket(128, False), Bucket(256, False))
PEAK = 1e12


@pytest.fixture(scope="session")
def make_run(tokenizer) -> Callable[..., Path]:
    """make_run(folder, steps) -> folder: a run as train.py leaves it, but with made-up losses; every 64th step spikes.

    `rate` is how fast losses fall, `evaluate_every` 0 means never, `is_killed` that it ended before it was finished.
    """

    def make(
        folder: Path,
        steps: int = 40,
        *,
        rate: float = 1.0,
        evaluate_every: int = 10,
        is_killed: bool = False,
        sample: str = "def f():\n\treturn 1\n",
        prompt: str = "def ",
        vocabulary: Tokenizer = tokenizer,
    ) -> Path:
        rng = random.Random(steps)
        train = TrainConfig(run=str(folder), num_steps=steps, log_every=1, sample_prompt=prompt)
        folder.mkdir(parents=True)
        vocabulary.save(folder / "tokenizer")
        config = Config(train=train, model=LlamaConfig(num_layers=2, dim=32, num_heads=4, hidden_dim=64))
        (folder / "config.yaml").write_text(config_yaml(config), encoding="utf-8")
        summary, rows, seconds = Summary(steps, PEAK), [], 0.0
        for step in range(1, steps + 1):
            record = made_up_step(step, loss_at(step, rate), rng)
            summary.add(record)
            seconds += record.seconds
            start = {"step": step, "tokens": step * 1000, "seconds": round(seconds, 3)}
            rows.append(start | record.row(PEAK) | {"device_memory_mib": 100.0 + step})
            if evaluate_every and step % evaluate_every == 0:
                rows.append(start | made_up_evaluation(loss_at(step, rate)))
        if not is_killed:
            rows.append(start | {"held_out_loss": 1.0, "unigram_entropy": 6.5, "sample": sample, "finished": True})
            content = summary.as_json({Kind.STEP: 90.0, Kind.DATA: 9.0, Kind.COMPILE: 1.0})
            (folder / "summary.json").write_text(json.dumps(content), encoding="utf-8")
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return folder

    return make


def loss_at(step: int, rate: float) -> float:
    return 2 + 6 * math.exp(-rate * step / 20)


def made_up_step(step: int, loss: float, rng: random.Random) -> StepRecord:
    values = {"loss": loss, "gradient_norm": 1.0, "learning_rate": 0.003}
    bucket = rng.choice(BUCKETS)
    return StepRecord(step, bucket, values, step % 50 != 0, 1000, 0.25, 0.001, 1e11, has_spike=step % 64 == 0)


def made_up_evaluation(loss: float) -> dict[str, float]:
    by_length = {f"held_out_loss_{bucket.length}{'p' * bucket.packed}": loss + 0.1 for bucket in BUCKETS}
    by_position = {f"held_out_loss_at_{start}": loss + 1 / (1 + float(start)) for start in position_starts(256)}
    return {"held_out_loss": loss, "held_out_bits_per_byte": loss / 2, **by_length, **by_position}
