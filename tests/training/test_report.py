"""What a run says of itself at its end."""

import math

import pytest

from training.errors import NonFiniteError
from training.report import check_held_out
from training.run import Run


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_run_whose_last_held_out_loss_is_not_finite_does_not_end_well(tmp_path, loss):
    with pytest.raises(NonFiniteError, match=rf"^held-out loss must be finite, got {loss} at step 7 of {tmp_path};"):
        check_held_out(Run(tmp_path), {"step": 7, "held_out_loss": loss})
    assert NonFiniteError.exit_code == 3


@pytest.mark.parametrize("row", [{}, {"step": 7, "held_out_loss": 2.5}])
def test_a_finite_held_out_loss_or_none_is_well(tmp_path, row):
    check_held_out(Run(tmp_path), row)
