"""What is known of a step when it is done, and its row of metrics."""

from typing import Any, NamedTuple

from dataservice import Bucket
from training.metrics import bucket_name


class StepRecord(NamedTuple):
    """A step that is done."""

    step: int
    """How many steps were taken with it."""
    bucket: Bucket
    values: dict[str, float]
    """loss (nats per real target), gradient_norm, learning_rate and whatever else the step gives."""
    is_finite: bool
    """Whether loss and gradient were; else the step was skipped."""
    count: int
    """Real targets."""
    seconds: float
    """Since the step before, or since what came between them ended."""
    data_wait: float
    """Seconds that the host waited for the batch; the device may have been at the step before in that time."""
    flops: float
    """Floating-point operations of the model, by formula."""
    has_spike: bool

    def mfu(self, peak_flops: float | None) -> float | None:
        """Model FLOPs utilisation: operations a second over the devices' peak; None where no peak is known."""
        return self.flops / self.seconds / peak_flops if peak_flops else None

    def row(self, peak_flops: float | None) -> dict[str, Any]:
        """The named values of a row of metrics."""
        mfu = self.mfu(peak_flops)
        return {
            "length": self.bucket.length,
            "packed": self.bucket.packed,
            # A skipped step's loss has no place in JSON, which knows no NaN.
            **(self.values if self.is_finite else {"skipped": True}),
            **({"spike": True} if self.has_spike else {}),
            "tokens_per_second": round(self.count / self.seconds, 1),
            "data_wait": round(self.data_wait, 6),
            **({"mfu": round(mfu, 4)} if mfu is not None else {}),
        }

    def note(self, peak_flops: float | None) -> str:
        """What the progress bar shows of it."""
        mfu = self.mfu(peak_flops)
        parts = [
            f"loss {self.values['loss']:.3f}",
            f"length {bucket_name(self.bucket)}",
            f"{self.count / self.seconds:,.0f} tokens/s",
            *([f"MFU {mfu:.1%}"] if mfu is not None else []),
            f"waited {self.data_wait:.3f} s",
        ]
        return ", ".join(parts)
