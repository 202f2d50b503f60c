"""Workers on the machines of a Ray cluster. Ray is an extra: pip install 'soundsmooth[ray]'.

Each worker is an actor that holds one `Worker`. This pool, and not Ray, replaces one that dies, because only here it
is known which blocks are lost; and the store is written here only.
"""

import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from ..core.errors import first_line
from ..smoothing.classifier import Smoothing
from ..smoothing.recipe import SmootherRecipe
from .pools import Message, WorkerDied, WorkerHandle, WorkerPool
from .process_pool import freeze, load
from .tasks import Image
from .worker import Worker

#: Larger images are put into Ray's object store, from which every machine fetches them once.
INLINE_BYTES = 50_000
REACH_SECONDS = 5.0
ANSWER_SECONDS = 30.0
SLACK = 1e-6


@dataclass(frozen=True)
class Need:
    """What a worker takes of its machine. GPUs may be fractions: several workers then share one."""

    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.cpus < 0 or self.gpus < 0 or not self.cpus + self.gpus:
            raise ValueError(f"a worker needs a part of a processor or of a GPU, not {self.cpus:g} and {self.gpus:g}")
        if self.gpus > 1:
            raise ValueError(f"a worker runs on one GPU or a part of it, not on {self.gpus:g}")

    def places(self, resources: Mapping[str, float]) -> int:
        """How many workers fit on a machine with these resources."""
        wanted = [(self.cpus, "CPU"), (self.gpus, "GPU")]
        return min(int(resources.get(name, 0) / need + SLACK) for need, name in wanted if need)

    def __str__(self) -> str:
        return f"{self.cpus:g} CPUs" + (f" and {self.gpus:g} GPUs" if self.gpus else "")


def ray_module() -> Any:
    """Ray, imported when it is used and not before."""
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise ValueError("engine ray needs Ray: pip install 'soundsmooth[ray]'") from None
    return ray


class RayPool(WorkerPool):
    """Workers on all machines of a cluster that have room, at most `workers` of them if that is given."""

    def __init__(
        self,
        recipe: SmootherRecipe,
        need: Need,
        workers: int | None = None,
        address: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self.need, self.workers, self.address, self.timeout = need, workers, address, timeout
        self._ray, self._ours, self._made_by, self.tunes = ray_module(), False, recipe, recipe.tunes

    def __enter__(self) -> "RayPool":
        """Connect; one clear line, in bounded time, if that cannot be."""
        if self._ray.is_initialized():
            self._check_same()
        else:
            connect(self._ray, self.address)
            self._ours = True
        if not self._room():
            self.__exit__()
            raise ValueError(f"no machine of the cluster has room for a worker, which takes {self.need}")
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if self._ours:
            self._ray.shutdown()
            self._ours = False

    def _check_same(self) -> None:
        joined = self._ray.get_runtime_context().gcs_address
        if self.address not in (None, "auto", joined):
            raise ValueError(f"this process has joined the Ray cluster at {joined!r} already, not {self.address!r}")

    def capacity(self) -> int:
        return self._room() if self.workers is None else self.workers

    def _room(self) -> int:
        return sum(self.need.places(node["Resources"]) for node in self._ray.nodes() if node["Alive"])

    def start_worker(self) -> "RayWorker":
        return RayWorker(self._actor.remote(self._recipe, min(self.need.gpus, 1.0) or 1.0))

    @cached_property
    def _actor(self) -> Any:
        return self._ray.remote(num_cpus=self.need.cpus, num_gpus=self.need.gpus, max_restarts=0)(RayActor)

    @cached_property
    def _recipe(self) -> Any:
        return self._ray.put(freeze(self._made_by, self._ray.cloudpickle.dumps))

    def share(self, value: Any) -> Any:
        small = isinstance(value, Image) and value.levels.nbytes <= INLINE_BYTES
        return value if small else self._ray.put(value)

    def wait(self, workers: list[WorkerHandle], seconds: float) -> list[Message]:
        oldest = {each.answers[0]: each for each in workers if isinstance(each, RayWorker) and each.answers}
        if not oldest:
            time.sleep(min(seconds, 0.1))
            return []
        found, _ = self._ray.wait(list(oldest), num_returns=1, timeout=seconds)
        if found and len(oldest) > 1:  # whatever else is there by now
            found, _ = self._ray.wait(list(oldest), num_returns=len(oldest), timeout=0)
        return [(oldest[answer], self._read(oldest[answer])) for answer in found]

    def _read(self, worker: "RayWorker") -> Any:
        errors = self._ray.exceptions
        losses = (
            errors.RayActorError,
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
            errors.RaySystemError,
        )
        try:
            answer = self._ray.get(worker.answers.popleft())
        except errors.RayTaskError as error:
            return error.cause if isinstance(error.cause, Exception) else error
        except losses as error:
            worker.kill()
            return WorkerDied(f"RuntimeError: a worker was lost: {_reason(error)}", self._alive(worker.node))
        if isinstance(answer, _Located):
            worker.node, answer = answer.node, answer.answer
        return answer

    def _alive(self, node: str | None) -> bool:
        """Whether a machine is still there, as far as is known."""
        return node is None or any(one["Alive"] for one in self._ray.nodes() if one["NodeID"] == node)

    def describe(self) -> Mapping[str, str]:
        return {"engine": f"ray {self._ray.__version__}"}


def connect(ray: Any, address: str | None) -> None:
    """Join the cluster at an address, or the one that RAY_ADDRESS names, or start one on this machine."""
    address = address or os.environ.get("RAY_ADDRESS")
    if address not in (None, "auto", "local"):
        _check_reachable(str(address))
    try:
        if address in (None, "local"):
            ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="CRITICAL")
        else:
            ray.init(address=address, log_to_driver=False, logging_level="CRITICAL")
    except Exception as error:
        where = f"the Ray cluster at {address!r} cannot be joined" if address else "Ray cannot be started"
        raise ValueError(f"{where}: {first_line(error)}") from error


def _check_reachable(address: str) -> None:
    """Ray itself may wait for minutes, or end the process, where nobody or somebody else answers."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"a Ray address is HOST:PORT (6379 is usual), ray://HOST:PORT or auto, not {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ValueError(f"the Ray cluster at {address!r} cannot be reached: {first_line(error)}") from None
    if address.startswith("ray://"):
        return
    code = "import sys; from ray.scripts.scripts import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "health-check", "--address", address]
    try:
        healthy = subprocess.run(command, capture_output=True, timeout=ANSWER_SECONDS, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        healthy = False
    if not healthy:
        raise ValueError(f"what answers at {address!r} is not a Ray cluster that works")


@dataclass(frozen=True)
class _Located:
    """An answer, and the machine that it comes from."""

    answer: Any
    node: str


class RayActor(Worker):
    """A worker that says where it is when it begins."""

    def __init__(self, recipe: bytes, share: float) -> None:
        super().__init__(partial(_load, recipe, share))

    def begin(self, *arguments: Any) -> Any:
        import ray

        return _Located(super().begin(*arguments), ray.get_runtime_context().get_node_id())


def _load(recipe: bytes, share: float) -> Smoothing:
    """Leave the others on this GPU their part: the first worker, alone on it, finds the largest batch that fits."""
    if share < 1:
        import torch

        torch.cuda.set_per_process_memory_fraction(share)
    return load(recipe)


class RayWorker:
    """An actor, and the answers that it owes, oldest first."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self.answers: deque[Any] = deque()
        self.node: str | None = None

    def call(self, method: str, *arguments: Any) -> None:
        self.answers.append(getattr(self._actor, method).remote(*arguments))

    def kill(self) -> None:
        import ray

        if ray.is_initialized():  # else it has ended with the connection, and Ray would start a cluster to kill it in
            ray.kill(self._actor, no_restart=True)


def _reason(error: BaseException) -> str:
    """What Ray says, without its numbers and addresses."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and ":" not in line[:20]]
    return (lines or [type(error).__name__])[0]
