"""Any number of processes on one store, each of which takes a share of what is to be done."""

from triptych.workers.worker import Share, Worker, WorkReport

__all__ = ["Share", "WorkReport", "Worker"]
