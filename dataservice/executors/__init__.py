"""Who does the tasks of preparing: processes of this machine, or Ray; results come in the order of the tasks."""

from dataservice.executors.attempt import MAX_TRIES, Failure
from dataservice.executors.order import EXECUTORS, Executor, count_workers, run_in_order

__all__ = ["EXECUTORS", "MAX_TRIES", "Executor", "Failure", "count_workers", "run_in_order"]
