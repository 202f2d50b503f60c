"""An ONNX file that nobody trusts: it is loaded and run by a process that never holds the key, the seed or the store.

This process keeps the file's bytes, its digest and the proof; it makes the noise and counts the votes. The other one
(`sandbox`) gets the graph, then one noisy batch after the other. The vote rule is applied here.
"""

from pathlib import Path
from typing import Any

import numpy.typing as npt

from ..core.grid import Floats
from ..core.independence import CHECKED, Independence, parse_demand, unproved_independence
from ..core.limits import seconds
from ..independence.proof import Report
from .model_source import ModelSource, OnnxBytes
from .onnx_file import OnnxModel
from .onnx_session import PROVIDERS
from .options import ModelOptions
from .proved_session import Frozen, Runtime
from .sandbox.client import TIMEOUT, SandboxedGraph


class IsolatedOnnxModel(OnnxModel):
    """The same as `OnnxModel`, with the same votes, in another process; the flag `isolated=yes` says so.

    The proof is made here, of the graph that onnxruntime says it runs, from what it says it computes.
    """

    def __init__(
        self,
        path: str | Path | OnnxBytes,
        device: str | None = None,
        threads: int | None = None,
        independence: str | Independence = "auto",
        timeout: float | None = None,
    ) -> None:
        if unproved_independence(parse_demand(independence)).measured:
            raise ValueError("an untrusted model is proved or checked; to be measured it would have to run unconfined")
        if device not in (None, "cpu"):
            raise ValueError(f"an untrusted model runs on the cpu only, not on {device!r}")
        self._timeout = TIMEOUT if timeout is None else seconds(timeout)
        super().__init__(path, None, threads, independence)

    @classmethod
    def accepts(cls, source: object, options: ModelOptions) -> bool:
        return options.untrusted and super().accepts(source, options)

    @classmethod
    def of(cls, source: ModelSource, options: ModelOptions) -> "IsolatedOnnxModel":
        cls._reject(options)
        return cls(source.model, options.device, options.threads, options.independence, options.timeout)

    def _start(self) -> None:
        """A process of its own, with the graph."""
        self._sandboxed = SandboxedGraph(self._graph.content, self._input, self._output, self._threads, self._timeout)

    @property
    def _runtime(self) -> Runtime:
        return self._sandboxed.runtime

    def prepare(self, shape: tuple[int, ...], batch: int) -> None:
        super().prepare(shape, batch)
        if self._sandboxed.loaded != self._made.session:  # a lower level was tried since, in vain
            self._sandboxed.load(*self._made.session)
        self._sandboxed.process.forget_folder()

    def _proof(self, shape: tuple[int, ...], batch: int) -> tuple[Frozen, Report]:
        """In a process that has not voted yet, and can still write."""
        if self._sandboxed.process.settled:
            self._renew()
        return super()._proof(shape, batch)

    def _renew(self) -> None:
        self._sandboxed.process.end("another one took its place")
        self._start()
        self._sandboxed.load(*self._best.session)  # which the proof begins with

    _without_proof = CHECKED  # to be measured it would have to run unconfined

    def flags(self) -> dict[str, str]:
        return {
            "isolated": "yes",
            "optimization": self._made.level,
            "provider": PROVIDERS["cpu"],
            "threads": str(self._threads),
        }

    def replica(self, number: int) -> "IsolatedOnnxModel":
        """A process of its own, which runs the same graph."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._proofs = {}
        other._start()
        other._sandboxed.load(*self._made.session)
        return other

    def recipe(self) -> bytes:
        raise ValueError("an untrusted model is made in a process of its own, and nowhere else")

    def scores(self, values: Floats) -> npt.NDArray[Any]:
        """The graph's first output for a batch, as the other process has it."""
        return self._sandboxed.scores(values)

    def close(self) -> None:
        """End the process; it also ends with this object, and with this process."""
        self._sandboxed.process.end("it was closed")
