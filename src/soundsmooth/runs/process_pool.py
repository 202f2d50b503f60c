"""Workers in processes of this machine: for models that hang, or that share a process badly."""

import multiprocessing
import pickle
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from threading import Thread
from typing import Any

from ..core.errors import describe_error
from ..models.recipe import SENDABLE
from ..smoothing.classifier import Smoothing
from ..smoothing.recipe import SmootherRecipe
from .pools import Message, WorkerDied, WorkerHandle, WorkerPool
from .worker import Worker

#: A fresh interpreter: nothing that this process holds, the seed least of all, is copied into it.
SPAWN = multiprocessing.get_context("spawn")


class ProcessPool(WorkerPool):
    """Some processes, each on the next of the GPUs if there are any."""

    def __init__(self, recipe: SmootherRecipe, workers: int, gpus: int = 0, timeout: float | None = None) -> None:
        self.workers, self.gpus, self.timeout = workers, gpus, timeout
        self._recipe, self._started, self.tunes = freeze(recipe, pickle.dumps), 0, recipe.tunes

    def capacity(self) -> int:
        return self.workers

    def start_worker(self) -> "ProcessWorker":
        gpu = self._started % self.gpus if self.gpus else 0
        self._started += 1
        return ProcessWorker(self._recipe, gpu)

    def wait(self, workers: list[WorkerHandle], seconds: float) -> list[Message]:
        by_end = {worker.end: worker for worker in workers if isinstance(worker, ProcessWorker)}
        if not by_end:
            time.sleep(seconds)
        return [(by_end[end], by_end[end].read()) for end in wait(list(by_end), seconds) if end in by_end]

    def describe(self) -> Mapping[str, str]:
        return {"engine": "processes"}


def freeze(recipe: SmootherRecipe, dumps: Callable[[Any], bytes]) -> bytes:
    """The recipe as bytes; a ValueError if it cannot be sent."""
    try:
        return dumps(recipe)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        why = describe_error(error)
        raise ValueError(f"the model cannot be sent to another process ({why}): {SENDABLE}") from error


def load(recipe: bytes, gpu: int = 0) -> Smoothing:
    """The smoothed classifier by a frozen recipe, in the process that votes."""
    try:
        found: SmootherRecipe = pickle.loads(recipe)
    except Exception as error:  # modules of the model may be missing here, or raise what they like
        raise ValueError(f"a worker cannot load the model: {describe_error(error)}") from error
    return found.build(gpu)


class ProcessWorker:
    """A worker in a process of its own, at the other end of a pipe."""

    def __init__(self, recipe: bytes, gpu: int) -> None:
        self.end, other = SPAWN.Pipe()
        self._process: BaseProcess = SPAWN.Process(target=serve, args=(other, recipe, gpu), daemon=True)
        self._process.start()
        other.close()

    def call(self, method: str, *arguments: Any) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it is dead, and `read` will say so
            self.end.send((method, arguments))

    def read(self) -> Any:
        try:
            return self.end.recv()
        except (EOFError, OSError):
            self._process.join(timeout=10)
            return WorkerDied(f"RuntimeError: the worker process ended with code {self._process.exitcode}")

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self.end.close()


def serve(end: Connection, recipe: bytes, gpu: int) -> None:
    """Answer the calls that come through the pipe, until its other end is closed."""
    # It ends with the one who asks, as does the process that it may need for rows that are voted alone.
    multiprocessing.current_process().daemon = False
    worker, calls = Worker(partial(load, recipe, gpu)), SimpleQueue[tuple[str, tuple[Any, ...]] | None]()
    # Read on while a call is at work: two ends that both write into a full pipe would wait for each other forever.
    Thread(target=_receive, args=(end, calls), daemon=True).start()
    with suppress(KeyboardInterrupt, BrokenPipeError):
        while (call := calls.get()) is not None:
            method, arguments = call
            try:
                answer = getattr(worker, method)(*arguments)
            except Exception as error:  # it is raised again where somebody listens
                answer = _sendable(error)
            end.send(answer)


def _receive(end: Connection, calls: "SimpleQueue[tuple[str, tuple[Any, ...]] | None]") -> None:
    with suppress(EOFError, OSError):
        while True:
            calls.put(end.recv())
    calls.put(None)


def _sendable(error: Exception) -> Exception:
    """The error, or its text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(describe_error(error))
    return error
