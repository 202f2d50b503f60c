"""A torch.nn.Module on any device, as a model."""

import copy
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import describe_error, first_line
from ..core.independence import CHECKED, PROVED, Independence, measured, parse_demand, unproved_independence
from ..core.layouts import axes_hint
from ..core.machine import InputPlacement, check_batch_memory, describe_batch
from ..independence.proof import export_module, prove_torch, without_detours
from .compiled import COMPILATIONS, Forward, forward_of
from .digest import module_digest
from .model_source import Factory, ModelSource, is_torch_module
from .options import ModelOptions, precision_name
from .outputs import Output, flagged_output, is_output_flag, output_flag
from .protocol import CLOSED, OPEN, Identity, Model, ModelKind, Votes, declared_classes
from .recipe import ModelRecipe
from .snapshot import Snapshot
from .speed import describe_slower
from .torch_flags import BOOLEAN, FLAGS, torch_flags
from .waiting_voters import why_not_alone, why_not_remade
from .wrappers import as_module, is_exported, is_scripted, plain_copy, silent_copying, unwrapping_remarks

if TYPE_CHECKING:
    import torch

#: In the error of a torch.export program that gets another batch size, and how to export it instead.
FIXED_BATCH = ".size()[0] == "
#: In the promise, where the graph that votes is not the exported one.
SHORTENED = "shortened"
FREE = 'export it with dynamic_shapes=[{0: torch.export.Dim("batch")}]'


def _promised_options(promised: Mapping[str, str], flags: Mapping[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {"dtype": promised["precision"], "compile": flags.get("compile", "none")}
    options["channels_last"] = flags.get("layout") == "channels_last"
    if flags.get("runs") == "module":  # then the module voted itself, not a graph that was made of it
        options["independence"] = "assumed"
    if "output" in flags:
        options["output"] = flagged_output(flags["output"])
    return options


class VotingGraph(NamedTuple):
    """The graph that votes in a module's place."""

    forward: Forward
    read: Snapshot
    """The numbers that it reads."""
    shortened: bool
    """Whether it has fewer masks and copies than the one that was exported."""
    slower: str | None = None
    """That it takes longer than the module, where that was seen."""


class TorchModel(Model):
    """A private copy of a module, in evaluation and inference mode.

    Inputs are made as float32 from levels and cast, once, to `dtype` (round to nearest even). The copy keeps
    later changes of the caller's module away from the promise. Of a wrapped module it is a copy of the one inside.
    """

    kind = ModelKind(
        "torch",
        flags={
            **{name: flag.values for name, flag in FLAGS.items()},
            "autocast": BOOLEAN,
            "layout": ("contiguous", "channels_last"),
            "compile": COMPILATIONS,
            "digest": (CLOSED, OPEN),
            "graph": (SHORTENED,),
            "output": is_output_flag,
            "runs": ("module", "exported-graph"),
            "threads": None,
        },
        optional=("compile", "digest", "graph", "output", "runs"),
        devices=None,  # the name of the GPU
        software=("torch", "triton"),
        options=_promised_options,
    )

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
    ) -> None:
        import torch

        from .torch_scores import Scoring

        module = as_module(module)
        if threads is not None:
            torch.set_num_threads(threads)  # torch knows only one number for the whole process
        self.demand = parse_demand(independence)
        self._independence = unproved_independence(self.demand)
        self._graphs: dict[tuple[int, ...], VotingGraph | None] = {}
        """By the shape of batches."""
        self._shortened = False
        self._not_alone: dict[tuple[int, ...], str | None] = {}
        """By the shape of inputs: why it cannot vote on one of them alone."""
        self._torch = torch
        self._precision = precision_name(dtype)
        self._dtype: torch.dtype = getattr(torch, self._precision)
        self._device = _device_of(module) if device is None else _device_named(device)
        self._channels_last = channels_last
        self.remarks = tuple(unwrapping_remarks(module))
        self._module = self._private_copy(module)
        self._compilation, self._output = compilation, output
        self._scoring = Scoring(self._module, output).eval()
        self._plain = forward_of(self._scoring, compilation, self._device.type)
        self._check_statistics()
        self._check_weights()
        self._digest = module_digest(self._module)
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
        )

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
            device=self._device_kind(),
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
        if (batch, *shape) not in self._graphs:
            self._graphs.setdefault((batch, *shape), self._graph(shape, batch))  # another thread's may be in use by now
        graph = self._graphs[batch, *shape]
        self._shortened, self.slower = (False, None) if graph is None else (graph.shortened, graph.slower)
        self._independence = self._without_proof(shape, batch) if graph is None else PROVED

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
        """Run the module on a grey batch of no consequence, unless it has run before: an error now costs nothing."""
        if self.classes is not None:
            return
        try:
            self.classes = self.vote(self._example(shape, batch)).classes
        except ValueError:
            raise
        except Exception as error:  # it is their code: anything can happen
            reason = f"{describe_error(error)}{axes_hint(shape)}"
            raise ValueError(f"the model failed on a batch of shape {[batch, *shape]}: {reason}") from error

    def _graph(self, shape: tuple[int, ...], batch: int) -> VotingGraph | None:
        """The graph for batches of inputs of a shape, if it is proved; without detours if that one is proved."""
        example = self._example(shape, batch)
        exported = export_module(self._scoring, example)
        for made in filter(None, (without_detours(exported, example), exported)):
            self.report = report = prove_torch(made, example)
            if report.proved and made.graph is not None:
                self.classes = declared_classes(made.scores)
                forward = forward_of(made.graph, self._compilation, self._device.type)
                return VotingGraph(forward, Snapshot(made.graph), made is not exported, self._slower(forward, example))
        if self.demand == PROVED:
            raise ValueError(f"independence cannot be proved for this module: {report.reason}")
        return None

    def _slower(self, forward: Forward, example: "torch.Tensor") -> str | None:
        """On a GPU, where passes are short and nobody else is at work. What is compiled is another module."""
        if self._device.type != "cuda" or self._compilation != "none":
            return None
        try:
            return describe_slower(self._scoring, forward, example)
        except RuntimeError:  # the batch does not fit beside the passes, or the module cannot run as it is
            return None

    def _example(self, shape: tuple[int, ...], batch: int) -> "torch.Tensor":
        """A batch to export with; a ValueError if there is no memory for it."""
        check_batch_memory(batch, shape)
        try:
            return self.cast(self._torch.full((batch, *shape), 0.5))
        except (RuntimeError, TypeError) as error:  # a size that torch cannot hold, or a GPU with less memory
            raise ValueError(
                f"{describe_batch(batch, shape)} cannot be made on {self._device}: {first_line(error)}"
            ) from error

    def forward(self, batch: "torch.Tensor") -> Any:
        """The scores, from what votes on inputs of this shape: the graph that was proved for it, or the module."""
        graph = self._graphs.get(tuple(batch.shape))
        return self._plain(batch) if graph is None else graph.forward(batch)

    def changes(self) -> Callable[[], bool]:
        """Of graphs, whether the numbers that they read have changed; of the module, whether its digest has."""
        graphs = [graph.read.compare() for graph in filter(None, self._graphs.values())]
        if self._independence.proved:
            return lambda: any(changed() for changed in graphs)
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
            compilation=self._compilation,
            made_by=self._made_by,
            output=self._output,
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
        batch = self.cast(values)  # not in inference mode: compiled code takes one kind of tensor only
        with self._torch.inference_mode():
            scores = chosen_scores(self._run(batch), None)
            classes = count_classes(scores, len(values))
            labels = first_maximum(scores)
        return Votes(labels if self._device.type == "cuda" else labels.cpu().numpy(), classes)

    def largest_batch(self, shape: tuple[int, ...], wanted: int) -> int:
        """Halve until a forward pass fits beside a second batch of noise. Decided once; the promise fixes it."""
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
                return True
        except torch.cuda.OutOfMemoryError:
            return False
        except RuntimeError as error:
            reason = f"{first_line(error)}{axes_hint(shape[1:])}"
            raise ValueError(f"the model failed on a batch of shape {list(shape)}: {reason}") from error
        finally:
            torch.cuda.empty_cache()

    def cast(self, values: Any) -> "torch.Tensor":
        """The batch on the device, in the precision and layout that were promised."""
        torch = self._torch
        given = values if isinstance(values, torch.Tensor) else torch.from_numpy(values)
        batch = given.to(self._device, self._dtype)
        if self._channels_last and batch.dim() == 4:
            batch = batch.contiguous(memory_format=torch.channels_last)
        return batch  # type: ignore[no-any-return]

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
            shape, reason = tuple(batch.shape), first_line(error)
            hint = axes_hint(shape[1:])
            raise ValueError(f"the model failed on a batch of shape {list(shape)}: {reason}{hint}") from error

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

    def _device_kind(self) -> str:
        if self._device.type == "cuda":
            return f"cuda {self._torch.cuda.get_device_name(self._device)}"
        return self._device.type

    def flags(self) -> dict[str, str]:
        """torch's flags, and how the module runs."""
        return {
            "layout": "channels_last" if self._channels_last else "contiguous",
            "compile": self._compilation,
            "runs": "exported-graph" if self._independence.proved else "module",
            **({"graph": SHORTENED} if self._shortened else {}),
            "threads": str(self._torch.get_num_threads()),
            **({} if self._output is None else {"output": output_flag(self._output)}),
            **{name: str(value) for name, value in torch_flags().items()},
            "autocast": str(self._torch.is_autocast_enabled(self._device.type)),
        }


def _device_named(name: str) -> "torch.device":
    """`cuda` alone means the first GPU; which one must not change when somebody selects another."""
    import torch

    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device must be cpu, cuda or cuda:1 and so on, not {name!r}") from None
    return torch.device("cuda", 0) if device.type == "cuda" and device.index is None else device


def _device_of(module: "torch.nn.Module") -> "torch.device":
    import torch

    parameter = next(module.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device
