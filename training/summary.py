"""The closing account of a run: what each bucket and the whole gave, and where the time went."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax

from dataservice import Bucket
from training.metrics import bucket_name
from training.phases import Kind
from training.records import StepRecord


@dataclass
class Account:
    """Sums over steps."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    data_wait: float = 0.0
    flops: float = 0.0
    late_nll: float = 0.0
    """Over the last tenth of the run, in nats; skipped steps left out."""
    late_tokens: int = 0

    def add(self, record: StepRecord, *, is_late: bool) -> None:
        """Take a step in."""
        self.steps += 1
        self.tokens += record.count
        self.seconds += record.seconds
        self.data_wait += record.data_wait
        self.flops += record.flops
        if is_late and record.is_finite:
            self.late_nll += record.values["loss"] * record.count
            self.late_tokens += record.count

    def figures(self, peak_flops: float | None) -> dict[str, Any]:
        """steps, tokens, seconds_per_step, tokens_per_second, mfu, late_loss; None for what is not known."""
        return {
            "steps": self.steps,
            "tokens": self.tokens,
            "seconds_per_step": self.seconds / self.steps if self.steps else None,
            "tokens_per_second": self.tokens / self.seconds if self.seconds else None,
            "mfu": self.flops / self.seconds / peak_flops if peak_flops and self.seconds else None,
            "late_loss": self.late_nll / self.late_tokens if self.late_tokens else None,
        }


@dataclass
class Summary:
    """The account of the steps since this start of the run (a resumed run has another for those before)."""

    num_steps: int
    peak_flops: float | None
    first_step: int | None = None
    last_step: int | None = None
    skipped_steps: int = 0
    spikes: list[dict[str, Any]] = field(default_factory=list)
    total: Account = field(default_factory=Account)
    buckets: defaultdict[Bucket, Account] = field(default_factory=lambda: defaultdict(Account))

    def add(self, record: StepRecord) -> None:
        """Take a step in."""
        self.first_step, self.last_step = self.first_step or record.step, record.step
        is_late = record.step > self.num_steps - max(1, self.num_steps // 10)
        for account in (self.total, self.buckets[record.bucket]):
            account.add(record, is_late=is_late)
        self.skipped_steps += not record.is_finite
        if record.has_spike:
            self.spikes.append({"step": record.step, "bucket": bucket_name(record.bucket), **record.values})

    def as_json(self, phase_seconds: Mapping[Kind, float]) -> dict[str, Any]:
        """What RUN/summary.json holds; shares are of all seconds since the start."""
        seconds = dict.fromkeys(Kind, 0.0) | dict(phase_seconds)
        everything = sum(seconds.values())
        return {
            "first_step": self.first_step,
            "last_step": self.last_step,
            "skipped_steps": self.skipped_steps,
            "peak_flops": self.peak_flops,
            "overall": {
                **self.total.figures(self.peak_flops),
                "data_wait_share_of_steps": self.total.data_wait / self.total.seconds if self.total.seconds else None,
            },
            "buckets": {
                bucket_name(bucket): account.figures(self.peak_flops)
                for bucket, account in sorted(self.buckets.items())
            },
            "seconds": {kind.name.lower(): round(seconds[kind], 3) for kind in Kind},
            "shares": {kind.name.lower(): round(seconds[kind] / everything, 5) for kind in Kind} if everything else {},
            "spikes": self.spikes,
            **peak_memory(),
        }


def peak_memory() -> dict[str, float]:
    """device_memory_mib: most memory in use at once so far, on the fullest device of this process.

    Where devices do not tell, as CPUs, process_memory_mib: most memory of this process so far.
    """
    statistics = [device.memory_stats() or {} for device in jax.local_devices()]
    peaks = [each["peak_bytes_in_use"] for each in statistics if "peak_bytes_in_use" in each]
    if peaks:
        return {"device_memory_mib": round(max(peaks) / 2**20, 1)}
    import resource
    import sys

    unit = 1 if sys.platform == "darwin" else 2**10
    return {"process_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)}


def summary_table(summary: Mapping[str, Any]) -> list[str]:
    """Lines of the closing table from what `Summary.as_json` gives."""
    lines = [
        f"{'length':>8} {'steps':>7} {'tokens':>14} {'s/step':>8} {'tokens/s':>11} {'MFU':>6} {'loss at the end':>16}"
    ]
    for name, figures in [*summary["buckets"].items(), ("all", summary["overall"])]:
        mfu, loss = figures["mfu"], figures["late_loss"]
        lines.append(
            f"{name:>8} {figures['steps']:>7,} {figures['tokens']:>14,} {figures['seconds_per_step'] or 0:>8.3f} "
            f"{figures['tokens_per_second'] or 0:>11,.0f} {'-' if mfu is None else f'{mfu:.1%}':>6} "
            f"{'-' if loss is None else f'{loss:.4f}':>16}"
        )
    lines.append(_shares_line(summary["shares"]))
    if summary["spikes"] or summary["skipped_steps"]:
        lines.append(f"{_steps(summary['spikes'])} with a spike, {summary['skipped_steps']} skipped as not finite")
    return lines


def _shares_line(shares: Mapping[str, float]) -> str:
    parts = [f"{shares[kind.name.lower()]:.1%} {kind}" for kind in _SHOWN if shares]
    return "of the time " + ", ".join(parts)


_SHOWN = (Kind.STEP, Kind.DATA, Kind.EVALUATE, Kind.SAVE, Kind.COMPILE)


def _steps(items: Iterable[Any]) -> str:
    count = len(list(items))
    return f"{count} step{'' if count == 1 else 's'}"
