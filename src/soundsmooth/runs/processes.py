"""Workers in processes of this machine: for models that hang, or that share a process badly."""

import multiprocessing
import pickle
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from threading import Thread
from typing import Any

from ..models.errors import describe_error
from ..models.recipe import SENDABLE
from .crew import Death, Hand, News
from .station import Station

#: A fresh interpreter: nothing that this process holds, the seed least of all, is copied into it.
SPAWN = multiprocessing.get_context("spawn")


@dataclass(eq=False)
class Processes:
    """A crew of `workers` processes, each on the next of the GPUs if there are any."""

    workers: int
    gpus: int = 0
    _hired: int = field(default=0, init=False)

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to do: the processes end with this one."""

    def strength(self) -> int:
        return self.workers

    def hire(self) -> "ProcessHand":
        gpu = self._hired % self.gpus if self.gpus else 0
        self._hired += 1
        return ProcessHand(gpu)

    def share(self, value: Any) -> Any:
        return value

    def wait(self, hands: list[Hand], seconds: float) -> list[News]:
        by_end = {hand.end: hand for hand in hands if isinstance(hand, ProcessHand)}
        if not by_end:
            time.sleep(seconds)
        return [News(by_end[end], by_end[end].read()) for end in wait(list(by_end), seconds) if end in by_end]

    def describe(self) -> Mapping[str, str]:
        return {"engine": "processes"}


class ProcessHand:
    """A station in a process of its own, at the other end of a pipe."""

    def __init__(self, gpu: int) -> None:
        self.end, other = SPAWN.Pipe()
        self._process: BaseProcess = SPAWN.Process(target=serve, args=(other, gpu), daemon=True)
        self._process.start()
        other.close()

    def call(self, method: str, *arguments: Any) -> None:
        try:
            self.end.send((method, arguments))
        except (BrokenPipeError, ConnectionResetError):
            pass  # it is dead, and `read` will say so
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise ValueError(
                f"the model cannot be sent to another process ({describe_error(error)}): {SENDABLE}"
            ) from error

    def read(self) -> Any:
        try:
            return self.end.recv()
        except (EOFError, OSError):
            self._process.join(timeout=10)
            return Death(f"RuntimeError: the worker process ended with code {self._process.exitcode}")

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self.end.close()


def serve(end: Connection, gpu: int) -> None:
    """Answer the calls that come through the pipe, until its other end is closed."""
    # It ends with the one who asks, as does the process that it may need for rows that are voted alone.
    multiprocessing.current_process().daemon = False
    station, calls = Station(gpu), SimpleQueue[tuple[str, tuple[Any, ...]] | None]()
    # Read on while a call is at work: two ends that both write into a full pipe would wait for each other forever.
    Thread(target=_receive, args=(end, calls), daemon=True).start()
    with suppress(KeyboardInterrupt, BrokenPipeError):
        while (call := calls.get()) is not None:
            method, arguments = call
            try:
                answer = getattr(station, method)(*arguments)
            except Exception as error:  # it is raised again where somebody listens
                answer = _sendable(error)
            end.send(answer)


def _receive(end: Connection, calls: "SimpleQueue[tuple[str, tuple[Any, ...]] | None]") -> None:
    while True:
        try:
            calls.put(end.recv())
        except (EOFError, OSError):
            return calls.put(None)
        except Exception as error:  # what was sent cannot be unpickled here
            end.send(ValueError(f"a worker cannot load the model: {describe_error(error)}"))


def _sendable(error: Exception) -> Exception:
    """The error, or its text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(describe_error(error))
    return error
