"""An ONNX file that nobody trusts: it is loaded and run by a process that never holds the key, the seed or the store.

This process keeps the file's bytes, its digest and the proof; it makes the noise and counts the votes. The other one
(`sandbox`) gets the graph, then one noisy batch after the other. The vote rule is applied here.
"""

from ..core.independence import CHECKED, unproved_independence
from ..independence.proof import ProofReport
from .onnx_file import OnnxModel
from .options import ModelOptions
from .proved_session import Frozen
from .sandbox.client import SandboxedGraph


class IsolatedOnnxModel(OnnxModel):
    """The same as `OnnxModel`, with the same votes, in another process; the flag `isolated=yes` says so.

    The proof is made here, of the graph that onnxruntime says it runs, from what it says it computes.
    """

    _runtime: SandboxedGraph

    @classmethod
    def accepts(cls, source: object, options: ModelOptions) -> bool:
        return options.untrusted and super().accepts(source, options)

    def _start(self) -> SandboxedGraph:
        """A process of its own, with the graph."""
        if unproved_independence(self.demand).measured:
            raise ValueError("an untrusted model is proved or checked; to be measured it would have to run unconfined")
        if (self._device, self._number) != ("cpu", ""):
            raise ValueError(f"an untrusted model runs on the cpu only, not on {self._device!r}")
        return SandboxedGraph(self._content, self._facts, self._threads, self._timeout)

    def prepare(self, shape: tuple[int, ...], batch: int) -> None:
        super().prepare(shape, batch)
        self._runtime.use(self._made.session)  # a lower level may have been tried since, in vain
        self._runtime.process.forget_folder()

    def _proof(self, shape: tuple[int, ...], batch: int) -> tuple[Frozen, ProofReport]:
        """In a process that has not voted yet, and can still write."""
        if self._runtime.process.settled:
            self._runtime.process.end("another one took its place")
            self._runtime = self._start()
        return super()._proof(shape, batch)

    _without_proof = CHECKED  # to be measured it would have to run unconfined

    def flags(self) -> dict[str, str]:
        return {"isolated": "yes", **super().flags()}

    def replica(self, number: int) -> "IsolatedOnnxModel":
        """A process of its own, which runs the same graph."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._proofs = {}
        other._runtime = other._start()
        other._runtime.use(self._made.session)
        return other

    def recipe(self) -> bytes:
        raise ValueError("an untrusted model is made in a process of its own, and nowhere else")

    def close(self) -> None:
        """End the process; it also ends with this object, and with this process."""
        self._runtime.process.end("it was closed")
