"""A worker in a process of its own, on this machine or on another one: it builds its model itself.

The same `Station` serves processes (`processes.py`) and clusters (`ray_engine.py`). It is told the key and the
images it votes on; neither the seed nor the store ever come near it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from ..grid import Levels
from ..machine import environment, processor
from ..models import Identity
from ..promise import Inputs, Secret
from ..settings import Settings
from .blocks import BlockVotes
from .checked import check_first, check_rows
from .engine import Duty, Run, Smoothing, promise_of, surveyed
from .voter import Image, Outcome, Task, Voter, look_ahead

#: What the promise says instead of a kind of device when several may take part.
MIXED = "mixed"
#: Software that chooses the kernels.
KERNELS = ("soundsmooth", "numpy", "onnxruntime", "torch")


class Build(Protocol):
    """How to build the smoothed classifier; it can be pickled."""

    def build(self, gpu: int = 0) -> Smoothing:
        """The smoothed classifier with one worker, on the GPU of that number if it needs one."""


class Kind(NamedTuple):
    """What decides how a forward pass rounds, beyond what the promise fixes."""

    device: str
    processor: str
    """Its make, where it computes votes, be it those of rows alone; else "any"."""
    software: str

    def __str__(self) -> str:
        return f"{self.device}, {self.processor} processor, {self.software}"


@dataclass(frozen=True)
class Survey:
    """What a station finds out about the model, so that the promise can be made by somebody who cannot load it."""

    identity: Identity
    smoothing: Smoothing
    """Its law, its batch and where the noise is made; without workers: they are elsewhere."""
    kind: Kind
    environment: Mapping[str, str]
    check: bool = False
    """Whether the rows are to be checked before the run."""


class Arrival(NamedTuple):
    """A station that is ready to vote."""

    kind: Kind
    ahead: int


class Station:
    """What the others call, in order, one call at a time."""

    def __init__(self, gpu: int = 0, share: float = 1.0) -> None:
        self._gpu, self._share = gpu, share
        self._smoothing: Smoothing | None = None
        self._voter: Voter | None = None

    def survey(self, build: Build, images: Sequence[Levels], settings: Settings) -> Survey:
        """Refuse what cannot work, and say what is to be promised. A few images are enough for that."""
        smoothing = self._built(build)
        identity = surveyed(smoothing, images[0], settings)
        elsewhere = Smoothing(smoothing.law, (), smoothing.batch_for(images[0].shape, settings.n), smoothing.made)
        recorded = environment() | {"noise made on": smoothing.made} | identity.recorded
        return Survey(identity, elsewhere, _kind(identity), recorded, check_first(smoothing.model, identity))

    def check(self, images: Sequence[Levels], settings: Settings) -> None:
        """Refuse a model whose rows are seen to depend on each other. After `survey`."""
        assert self._smoothing is not None
        worker, batch = self._smoothing.workers[0], self._smoothing.batch_for(images[0].shape, settings.n)
        check_rows(worker.model, worker.sampler, images, min(batch, settings.n))

    def begin(self, build: Build, duty: Duty, keep: int | None) -> Arrival:
        """Get ready to vote, unless the model is not the promised one."""
        smoothing = self._built(build)
        worker, identity = smoothing.workers[0], smoothing.identity(duty.shape, duty.batch)
        own = replace(duty, identity=identity) if duty.identity.device == MIXED else duty
        if replace(identity, device=duty.identity.device) != duty.identity:
            raise ValueError(f"a worker's model is not the promised one: {_difference(duty.identity, identity)}")
        if identity.device != own.identity.device:
            raise ValueError(
                f"the workers are of different kinds: promised is {own.identity.device}, one has {identity.device}; "
                "leave those nodes out, or begin a run with --allow-mixed"
            )
        if self._voter is not None:
            self._voter.close()
        self._voter = Voter(own, worker, keep).ready()
        return Arrival(_kind(identity), look_ahead(worker))

    def give(self, task: Task, image: Image) -> list[Outcome]:
        assert self._voter is not None
        return [_compact(outcome) for outcome in self._voter.give(task, image)]

    def rest(self) -> list[Outcome]:
        assert self._voter is not None
        return [_compact(outcome) for outcome in self._voter.rest()]

    def idle(self) -> float:
        """Do nothing, so that what a call costs can be measured; the processor time that this process has taken."""
        return time.process_time()

    def _built(self, build: Build) -> Smoothing:
        if self._smoothing is None:
            if self._share < 1:
                _limit_gpu_memory(self._share)
            self._smoothing = build.build(self._gpu)
        return self._smoothing


def _limit_gpu_memory(share: float) -> None:
    """Leave the others on this GPU their part: the largest batch that fits is found by the first, alone on it."""
    import torch

    torch.cuda.set_per_process_memory_fraction(share)


def _compact(outcome: Outcome) -> Outcome:
    """The same votes in fewer bytes, for the way back."""
    if not isinstance(outcome.votes, BlockVotes) or outcome.votes.classes > np.iinfo(np.int16).max:
        return outcome
    return outcome._replace(votes=replace(outcome.votes, labels=outcome.votes.labels.astype(np.int16)))


def _kind(identity: Identity) -> Kind:
    found = environment()
    software = " ".join(f"{name}={found[name]}" for name in KERNELS if name in found)
    computes = identity.device == "cpu" or identity.independence.measured
    return Kind(identity.device, processor() if computes else "any", software)


def _difference(promised: Identity, found: Identity) -> str:
    """The first field that differs, and what to do about it."""
    old, new = vars(promised), vars(found)
    name = next(name for name in old if name != "device" and old[name] != new[name])
    advice = {
        "digest": "; its file or its code differs there (a class that is defined in the script that was started "
        "must be moved to a module that the workers can import)"
    }.get(name, "")
    return f"{name} {_short(old[name])} -> {_short(new[name])}{advice}"


def _short(value: object) -> str:
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 else text


def run_elsewhere(found: Survey, inputs: Inputs, settings: Settings, secret: Secret, mixed: bool = False) -> Run:
    """A run that other processes vote on, promised on the strength of what one of them found.

    With `mixed` the promise says `device: mixed`: a certificate is then about the mixture of the kinds of device that
    took part, which its environment names (docs/scale.md).
    """
    identity = replace(found.identity, device=MIXED) if mixed else found.identity
    promise = promise_of(found.smoothing, identity, inputs, settings, secret)
    return Run(found.smoothing, identity, inputs, settings, secret, promise, found.environment)
