"""A torch.nn.Module on any device, as a model."""

import copy
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ..core.errors import describe_error, first_line
from ..core.independence import CHECKED, PROVED, Independence, measured, parse_demand, unproved_independence
from ..core.layouts import axes_hint
from ..core.machine import InputPlacement, check_batch_memory, describe_batch
from .artifact import WAY_OUT, Artifact
from .compiled import TUNED
from .digest import module_digest
from .model_source import Factory, ModelSource, is_torch_module
from .options import ModelOptions, precision_name
from .outputs import Output, output_flag
from .protocol import Identity, Model, Votes
from .recipe import ModelRecipe
from .snapshot import Snapshot
from .speed import quick_rows
from .torch_devices import check_no_kernel_is_timed, device_kind, device_named, device_of
from .torch_flags import torch_flags
from .torch_kind import GRAPH, SHORTENED, TORCH_KIND
from .voting_graphs import VotingGraphs
from .waiting_voters import why_not_alone, why_not_remade
from .wrappers import as_module, is_exported, is_scripted, plain_copy, silent_copying, unwrapping_remarks

if TYPE_CHECKING:
    import torch

#: In the error of a torch.export program that gets another batch size, and how to export it instead.
FIXED_BATCH = ".size()[0] == "
FREE = 'export it with dynamic_shapes=[{0: torch.export.Dim("batch")}]'


class TorchModel(Model):
    """A private copy of a module, in evaluation and inference mode.

    Inputs are made as float32 from levels and cast, once, to `dtype` (round to nearest even). The copy keeps
    later changes of the caller's module away from the promise. Of a wrapped module it is a copy of the one inside.
    """

    kind = TORCH_KIND

    def __init__(
        self,
        module: "torch.nn.Module",
        device: str | None = None,
        dtype: str | None = None,
        channels_last: bool = False,
        threads: int | None = None,
        independence: str | Independence = "auto",
        compilation: str = "none",
        made_by: Factory | None = None,
        output: Output = None,
        artifact: bytes | None = None,
    ) -> None:
        import torch

        from .torch_scores import Scoring

        module = as_module(module)
        if threads is not None:
            torch.set_num_threads(threads)  # torch knows only one number for the whole process
        self.demand = parse_demand(independence)
        self._independence = unproved_independence(self.demand)
        self._shortened = False
        self._not_alone: dict[tuple[int, ...], str | None] = {}
        """By the shape of inputs: why it cannot vote on one of them alone."""
        self._tried = set[tuple[int, ...]]()  # shapes of inputs of which it has taken a batch
        self._torch = torch
        self._precision = precision_name(dtype)
        self._dtype: torch.dtype = getattr(torch, self._precision)
        self._device = device_of(module) if device is None else device_named(device)
        self._channels_last = channels_last
        self.remarks = tuple(unwrapping_remarks(module))
        self._module = self._private_copy(module)
        check_no_kernel_is_timed(self._device)
        self._output = output
        self._scoring = Scoring(self._module, output).eval()
        self._check_statistics()
        self._check_weights()
        self._digest = module_digest(self._module)
        self._voting = VotingGraphs(self._scoring, compilation, self._device, self._read(artifact))
        self._note_way()
        self._weights = Snapshot(self._module)
        self._made_by = made_by
        if self._independence.measured:
            self.recipe()  # now, before it votes

    def _private_copy(self, module: "torch.nn.Module") -> "torch.nn.Module":
        """In evaluation mode, on the device, in the precision and layout that are promised."""
        import torch

        private: Any = plain_copy(module)
        layout = torch.channels_last if self._channels_last else torch.preserve_format
        try:
            with silent_copying():
                moved: torch.nn.Module = private.to(self._device, self._dtype, memory_format=layout).eval()
            return moved
        except (RuntimeError, AssertionError) as error:  # torch asserts that it was built for the device
            hint = "; without a device it runs on the processor" if isinstance(error, AssertionError) else ""
            raise ValueError(
                f"the module cannot run on {self._device} in {self._precision}: {first_line(error)}{hint}"
            ) from error

    @classmethod
    def accepts(cls, source: object, options: ModelOptions) -> bool:
        return is_torch_module(source) or is_exported(source)

    @classmethod
    def of(cls, source: ModelSource, options: ModelOptions) -> "TorchModel":
        return cls(
            source.model,
            options.device,
            options.dtype,
            options.channels_last,
            options.threads,
            options.independence,
            options.compile,
            source.made_by,
            options.output,
            options.artifact,
        )

    def _read(self, content: bytes | None) -> Artifact | None:
        """The artifact with this content; a ValueError if it was tuned for another model."""
        artifact = None if content is None else Artifact.of(content)
        if artifact is not None and artifact.model != self._digest.sha256:
            raise ValueError(f"the artifact was tuned for another model; {WAY_OUT}")
        return artifact

    @classmethod
    def sendable(cls, source: Any, options: dict[str, Any]) -> object:
        """A module that may be unpickled where there is no such GPU; `options` say where it is to run."""
        module = plain_copy(source)
        first = next(module.parameters(), None)
        if first is not None:
            options.setdefault("device", first.device.type)
        return module.cpu()

    @property
    def placement(self) -> InputPlacement | None:
        """On a GPU the noise is made there, in the model's own precision and layout."""
        if self._device.type != "cuda":
            return None
        return InputPlacement(str(self._device), self._precision, self._channels_last)

    def identity(self) -> Identity:
        return Identity(
            self.kind.name,
            self._digest.sha256,
            precision=self._precision,
            device=device_kind(self._device),
            flags=self.flags(),
            independence=self._independence,
            first_digest=self._digest.first,
            open_ends=self._digest.open_ends,
        )

    def prepare(self, shape: tuple[int, ...], batch: int) -> None:
        """Export the module; if its graph is proved to keep rows apart in batches of this size, the graph votes on such
        batches from now on, not the module. They get one graph for good: a run that votes on it may have been
        interrupted.

        Otherwise its rows are measured, if they can be; other demands than "auto" and "proved" leave it as it is.
        """
        if self.demand not in ("auto", PROVED):
            self._try_batch(shape, batch)
            return
        found = self._voting.found((batch, *shape)) or self._voting.prove(self._example(shape, batch))
        graph, self.report = found
        if graph is None and self.demand == PROVED and self.report is not None:
            raise ValueError(f"independence cannot be proved for this module: {self.report.reason}")
        self._shortened, self.classes = (False, self.classes) if graph is None else (graph.shortened, graph.classes)
        self._independence = self._without_proof(shape, batch) if graph is None else PROVED
        if self._voting.compilation == "torch-compile":  # no compiler is an error now, and not in each block
            self._try_batch(shape, batch)

    def _without_proof(self, shape: tuple[int, ...], batch: int) -> Independence:
        """Measured, unless the module cannot vote alone in a fresh process (one that a notebook or script defines).

        Until now the module has not voted: a graph did, or nothing. A batch that it cannot take is an error before any
        process is started.
        """
        if shape not in self._not_alone:
            why_not = self._why_not_remade  # takes the recipe, before the module has seen anything
            self._try_batch(shape, batch)
            self._not_alone[shape] = why_not or why_not_alone(self, shape)
        self.unmeasured = self._not_alone[shape]
        return measured() if self.unmeasured is None else CHECKED

    def _try_batch(self, shape: tuple[int, ...], batch: int) -> None:
        """Run the module on a grey batch of no consequence, once for each shape: an error now costs nothing."""
        if shape in self._tried:
            return
        try:
            self.classes = self.vote(self._example(shape, batch)).classes
        except ValueError:
            raise
        except Exception as error:  # it is their code: anything can happen
            reason = f"{describe_error(error)}{axes_hint(shape)}"
            raise ValueError(f"the model failed on a batch of shape {[batch, *shape]}: {reason}") from error
        self._tried.add(shape)

    def settle(self, shape: tuple[int, ...], batches: Sequence[int], copies: int) -> None:
        """Tune, if that was asked for, or decide what `auto` is."""
        self._voting.check_batch(batches[0], shape)
        tunes = self._voting.compilation == TUNED and self._voting.artifact is None
        if tunes or self._device.type == "cuda":
            self.prepare(shape, batches[0])
        if tunes:
            self._tune(shape, batches)
        elif self._device.type == "cuda":
            self._voting.settle(self._example(shape, batches[0]), copies)
        self._note_way()

    def _tune(self, shape: tuple[int, ...], batches: Sequence[int]) -> None:
        if not self._independence.proved:
            why = "" if self.report is None else f" ({self.report.reason})"
            raise ValueError(
                "compile tuned is for modules whose rows are proved to be independent, and these are "
                f"{self._independence.text}{why}: choose torch-compile"
            )
        self._voting.tune(partial(self._example, shape), batches, self._digest.sha256)
        if module_digest(self._module) != self._digest:
            self._voting.run_as(TUNED, None)  # what was tuned is of another model
            raise ValueError("the model changed while its kernels were tuned; a base classifier must keep no state")

    def run_as(self, compilation: str, artifact: bytes | None) -> None:
        known = self._voting.artifact
        same = known is not None and artifact == known.content  # they have many bytes, and are mostly the same object
        self._voting.run_as(compilation, known if same else self._read(artifact))
        self._note_way()

    def _note_way(self) -> None:
        """What others are to know of how it runs."""
        tuned = self._voting.artifact
        self.artifact, self.tuned_batch = (None, None) if tuned is None else (tuned.content, tuned.way.batch)
        self.slower, self.chosen = self._voting.slower, self._voting.chosen

    def _example(self, shape: tuple[int, ...], batch: int) -> "torch.Tensor":
        """A batch to export with; a ValueError if there is no memory for it."""
        check_batch_memory(batch, shape)
        try:
            return self.cast(self._torch.full((batch, *shape), 0.5, dtype=self._dtype, device=self._device))
        except (RuntimeError, TypeError) as error:  # a size that torch cannot hold, or a GPU with less memory
            raise ValueError(
                f"{describe_batch(batch, shape)} cannot be made on {self._device}: {first_line(error)}"
            ) from error

    def forward(self, batch: "torch.Tensor") -> Any:
        """The scores, from what votes on inputs of this shape: the graph that was proved for it, or the module."""
        return self._voting.forward(batch)

    def changes(self) -> Callable[[], bool]:
        """Of graphs, whether the numbers that they read have changed; of the module, whether its digest has."""
        if self._independence.proved:
            return self._voting.changes()
        seen = self._weights.compare()
        return lambda: seen() and module_digest(self._module) != self._digest

    def replica(self, number: int) -> "TorchModel":
        """On a GPU, the replica of that number lives on the GPU of that number; they must be of one kind."""
        device = f"cuda:{number}" if self._device.type == "cuda" else str(self._device)
        other = TorchModel(
            self._module,
            device,
            self._precision,
            self._channels_last,
            independence=self.demand,
            compilation=self._voting.compilation,
            made_by=self._made_by,
            output=self._output,
            artifact=self.artifact,
        )
        if other.identity() != self.identity():
            raise ValueError(
                f"{other.identity().device} and {self.identity().device} are different kinds of device; "
                "choose one GPU: --device cuda:0"
            )
        return other

    def recipe(self) -> bytes:
        return self._recipe

    @cached_property
    def _why_not_remade(self) -> str | None:
        return why_not_remade(self)

    @cached_property
    def _recipe(self) -> bytes:
        """The factory that made the module, or the module itself as it is now, on the CPU."""
        if is_scripted(self._module):
            raise ValueError(
                "a TorchScript module cannot be made again in a fresh process, nor its code be read: give the "
                "torch.nn.Module that it was made from, or export that one to ONNX"
            )
        options = {"dtype": self._precision, "channels_last": self._channels_last, "output": self._output}
        source: object = self._made_by
        if source is None:
            source = self._module if self._device.type == "cpu" else copy.deepcopy(self._module).cpu()
        return ModelRecipe(TorchModel.of, source, options, torch_flags(), self._digest.sha256).frozen()

    def vote(self, values: Any) -> Votes:
        from .torch_scores import chosen_scores, count_classes, first_maximum

        self._check_eval()
        batch = self.cast(values)
        with self._torch.inference_mode():
            scores = chosen_scores(self._run(batch), None)
            classes = count_classes(scores, len(values))
            labels = first_maximum(scores)
        return Votes(labels if self._device.type == "cuda" else labels.cpu().numpy(), classes)

    def largest_batch(self, shape: tuple[int, ...], wanted: int) -> int:
        """On a processor, so many rows that what each layer gives is small. On a GPU, halve until a forward pass fits
        beside a second batch of noise. Decided once; the promise fixes it.
        """
        if self._device.type == "cpu":
            return quick_rows(self._module, self._example(shape, 1), wanted)
        if self._device.type != "cuda":
            return wanted
        batch = wanted
        while not self._fits((batch, *shape)):
            if batch == 1:
                raise ValueError(f"not even one input of shape {list(shape)} fits into the memory of {self._device}")
            batch = -(-batch // 2)
        return batch

    def _fits(self, shape: tuple[int, ...]) -> bool:
        from .torch_scores import chosen_scores, count_classes

        torch = self._torch
        try:
            batches = [self.cast(torch.zeros(shape, dtype=self._dtype, device=self._device)) for _ in range(2)]
            with torch.inference_mode():
                scores = chosen_scores(self.forward(batches[0]), None)
                torch.cuda.synchronize(self._device)
                self.classes = count_classes(scores, len(scores))
                self._tried.add(shape[1:])
                return True
        except torch.cuda.OutOfMemoryError:
            return False
        except RuntimeError as error:
            reason = f"{first_line(error)}{axes_hint(shape[1:])}"
            raise ValueError(f"the model failed on a batch of shape {list(shape)}: {reason}") from error
        finally:
            torch.cuda.empty_cache()

    def cast(self, values: Any) -> "torch.Tensor":
        """The batch on the device, in the precision and layout that were promised.

        Guarantee: it is no tensor of inference mode, whoever calls. Compiled code takes one kind of tensor only.
        """
        torch = self._torch
        with torch.inference_mode(False):
            given = values if isinstance(values, torch.Tensor) else torch.from_numpy(values)
            batch = given.to(self._device, self._dtype)
            if self._channels_last and batch.dim() == 4:
                batch = batch.contiguous(memory_format=torch.channels_last)
                batch = as_noise_lies(batch) if self._device.type == "cuda" else batch
            return batch.clone() if batch.is_inference() else batch  # type: ignore[no-any-return]

    def _run(self, batch: "torch.Tensor") -> Any:
        try:
            return self.forward(batch)
        except self._torch.cuda.OutOfMemoryError as error:
            raise ValueError(
                f"{self._device} has no memory for a batch of shape {list(batch.shape)}; its size is fixed by the "
                "promise: begin another run with a smaller --batch-size"
            ) from error
        except AssertionError as error:
            if FIXED_BATCH not in str(error):
                raise
            raise ValueError(f"the program was exported for one batch size ({first_line(error)}): {FREE}") from error
        except RuntimeError as error:  # wrong shapes and the like; never tried again with other noise
            reason = f"{first_line(error)}{axes_hint(tuple(batch.shape[1:]))}"
            raise ValueError(f"the model failed on a batch of shape {list(batch.shape)}: {reason}") from error

    def _check_statistics(self) -> None:
        """Batch normalisation without running statistics averages over the batch, in evaluation mode too."""
        for name, part in self._module.named_modules():
            if isinstance(part, self._torch.nn.modules.batchnorm._BatchNorm) and part.running_mean is None:
                raise ValueError(
                    f"the layer {name!r} normalises over the batch, so rows see each other; this is refused"
                )

    def _check_weights(self) -> None:
        """A module made on torch's device `meta` has shapes and no numbers."""
        if any(tensor.is_meta for tensor in [*self._module.parameters(), *self._module.buffers()]):
            raise ValueError("the module has no weights: they are on torch's device meta, which holds no numbers")

    def _check_eval(self) -> None:
        """The model may not leave evaluation mode, not even from inside its own forward."""
        for name, part in self._module.named_modules():
            if part.training:
                raise ValueError(f"the module {name or 'itself'!r} went into training mode while it was certified")

    def flags(self) -> dict[str, str]:
        """torch's flags, and how the module runs."""
        return {
            "layout": "channels_last" if self._channels_last else "contiguous",
            "compile": self._voting.promised,
            **({} if self._voting.artifact is None else {"artifact": self._voting.artifact.digest}),
            "runs": GRAPH if self._independence.proved else "module",
            **({"graph": SHORTENED} if self._shortened else {}),
            "threads": str(self._torch.get_num_threads()),
            **({} if self._output is None else {"output": output_flag(self._output)}),
            **{name: str(value) for name, value in torch_flags().items()},
            "autocast": str(self._torch.is_autocast_enabled(self._device.type)),
        }


def as_noise_lies(batch: "torch.Tensor") -> "torch.Tensor":
    """The batch with channels last, and with the strides that the noise on a GPU has there.

    An axis of length 1 may have any. Compiled code takes only those with which it was compiled.
    """
    import torch

    usual = torch.empty_like(batch, device="meta", memory_format=torch.channels_last).stride()
    return batch if batch.stride() == usual else torch.empty_like(batch, memory_format=torch.channels_last).copy_(batch)
