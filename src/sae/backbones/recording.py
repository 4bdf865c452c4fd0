"""Records of a module's operations up to its last exit.

A module's forward runs on samples while every operation outside its building blocks is recorded. A
building block is any submodule that holds neither an exit nor the first layer; it is one step of the
record, whatever it does inside.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.node import map_aggregate
from torch.overrides import TorchFunctionMode

from sae.core.task import Shape

DATA_DEPENDENT = {"item", "tolist", "__bool__", "__int__", "__float__", "__index__", "numpy", "__array__"}
IN_PLACE_WITHOUT_RESULT = {"__setitem__", "set_", "__set__"}
PLAIN = (int, float, str, bool, torch.dtype, torch.device, torch.memory_format, torch.layout, type(None), type(...))


class CannotCutError(Exception):
    """A module cannot be cut; the message says why, as the end of a sentence."""


class StepKind(StrEnum):
    """The kind of a recorded step."""

    SAMPLES = "samples"  # the input
    MODULE = "module"
    WEIGHT = "weight"
    FUNCTION = "function"
    METHOD = "method"


@dataclass(frozen=True)
class Value:
    """The value that the step with this number returned."""

    number: int


@dataclass(frozen=True)
class Step:
    """One operation."""

    kind: StepKind
    target: Any
    args: Any = ()
    kwargs: Any = field(default_factory=dict)


@dataclass
class Record:
    """The steps of a module up to its last exit.

    Attributes:
        steps: The operations in the order in which they ran; step 0 is the samples.
        shapes: The shape of each step's value, by the step's number; values that are not tensors are left out.
        exits: The number of the step that returned each exit's features.
        overwritten: The exits whose features a later step changed in place.
    """

    steps: list[Step] = field(default_factory=list)
    shapes: dict[int, Shape] = field(default_factory=dict)
    exits: list[int] = field(default_factory=list)
    overwritten: set[int] = field(default_factory=set)


class _StopForwardError(Exception):
    """The last exit has run."""


class _Recorder(TorchFunctionMode):
    """A recorder of the operations of one forward pass outside its building blocks."""

    def __init__(self, module: nn.Module, x: Tensor) -> None:
        super().__init__()
        self.record = Record([Step(StepKind.SAMPLES, "x")], {0: tuple(x.shape)})
        self.device, self.num_inside = x.device, 0
        self._weights = {
            id(tensor): name for found in (module.named_parameters(), module.named_buffers()) for name, tensor in found
        }
        self._known, self._alive = {id(x): 0}, [x]
        self._versions: dict[int, tuple[Tensor, int]] = {}

    def __torch_function__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if not self.num_inside:
            name = getattr(func, "__name__", "")
            if name in DATA_DEPENDENT:
                raise CannotCutError("its forward depends on the values of the data")
            if name in IN_PLACE_WITHOUT_RESULT or kwargs.get("out") is not None:
                raise CannotCutError("its forward writes into tensors")
            if _holds_tensor(out):
                self.note(*_target_of(func), args, kwargs, out)
        return out

    def note(self, kind: StepKind, target: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Note one operation and its result."""
        if kind is StepKind.FUNCTION and isinstance(target, str):  # an attribute of a tensor, such as x.T
            kind, target, args = StepKind.FUNCTION, getattr, (args[0], target)
        encoded = self._encoded(tuple(args)), self._encoded(dict(kwargs))
        self._append(Step(kind, target, *encoded), out)

    def note_exit(self, output: object) -> None:
        """Note that an exit has returned."""
        number = self._known.get(id(output))
        if number is None:
            raise CannotCutError("an exit returns a value that no recorded step has computed")
        assert isinstance(output, Tensor)
        self._versions[len(self.record.exits)] = output, output._version
        self.record.exits.append(number)

    def finish(self) -> Record:
        """Return the record, including the exits that were overwritten."""
        changed = {index for index, (tensor, version) in self._versions.items() if tensor._version != version}
        self.record.overwritten |= changed
        return self.record

    def _append(self, step: Step, out: object) -> None:
        number = len(self.record.steps)
        self.record.steps.append(step)
        if isinstance(out, Tensor):
            self._known[id(out)] = number
            self._alive.append(out)  # so that no two tensors share an identity
            self.record.shapes[number] = tuple(out.shape)
            return
        items: Iterable[tuple[Any, Any]] = ()
        if isinstance(out, tuple | list):
            items = enumerate(out)
        elif isinstance(out, Mapping):
            items = out.items()
        for key, item in items:
            if _holds_tensor(item):
                self._append(Step(StepKind.FUNCTION, operator.getitem, (Value(number), key)), item)

    def _encoded(self, given: Any) -> Any:
        return map_aggregate(given, self._encoded_leaf)

    def _encoded_leaf(self, item: Any) -> Any:
        if not isinstance(item, Tensor):
            if not isinstance(item, PLAIN):
                raise CannotCutError(f"its forward passes on an object of type {type(item).__name__}")
            return item
        if id(item) not in self._known:
            if id(item) not in self._weights:
                raise CannotCutError("its forward uses a tensor that is neither a parameter nor a buffer")
            self._append(Step(StepKind.WEIGHT, self._weights[id(item)]), item)
        return Value(self._known[id(item)])


def _holds_tensor(value: object) -> bool:
    if isinstance(value, Tensor):
        return True
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else ()
    return any(_holds_tensor(item) for item in items)


def _target_of(func: Any) -> tuple[StepKind, Any]:
    """Return the way to repeat a call: a method or an attribute of the first argument, or the function itself."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return StepKind.FUNCTION, str(func.__self__.__name__)
    if getattr(Tensor, name, None) is func:
        return StepKind.METHOD, name
    return StepKind.FUNCTION, func


def record(module: nn.Module, x: Tensor, exits: Sequence[str], first: str) -> Record:
    """Record the operations of a module on a batch, up to its last exit.

    Args:
        module: The module, in the mode to record.
        x: A batch.
        exits: Names of submodules, in the order in which they run.
        first: The name of the first layer, behind which the record can be cut.
    """
    recorder = _Recorder(module, x)
    opened = {"", *(prefix for name in (*exits, first) for prefix in _prefixes(name))}

    def enter(_module: nn.Module, _args: Any, _kwargs: Any) -> None:
        recorder.num_inside += 1

    def leave(name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            recorder.num_inside -= 1
            if not recorder.num_inside:
                recorder.note(StepKind.MODULE, name, args, kwargs, output)

        return hook

    def exit_hook(_module: nn.Module, _args: Any, output: Any) -> None:
        recorder.note_exit(output)
        if len(recorder.record.exits) == len(exits):
            raise _StopForwardError

    with ExitStack() as stack:
        for name, item in module.named_modules():
            if name not in opened:
                stack.enter_context(item.register_forward_pre_hook(enter, with_kwargs=True))
                stack.enter_context(item.register_forward_hook(leave(name), with_kwargs=True))
        for name in exits:
            stack.enter_context(module.get_submodule(name).register_forward_hook(exit_hook))
        with recorder:
            try:
                module(x)
            except _StopForwardError:
                return recorder.finish()
    raise CannotCutError("its exits do not run one after the other")


def _prefixes(name: str) -> list[str]:
    """Return the names of the modules that hold a submodule."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def exit_features(module: nn.Module, x: Tensor, exits: Sequence[str]) -> list[Tensor]:
    """Run a module up to its last exit and return a copy of the features of each exit.

    An export cannot follow the exception that stops the module. There the module runs to the end, and operations that
    no exit needs are not part of the exported graph.
    """
    found: list[Tensor] = []

    def note(_module: nn.Module, _args: object, output: Tensor) -> None:
        found.append(output.clone())
        if len(found) == len(exits) and not torch.compiler.is_compiling():
            raise _StopForwardError

    with ExitStack() as hooks:
        for name in exits:
            hooks.enter_context(module.get_submodule(name).register_forward_hook(note))
        try:
            module(x)
        except _StopForwardError:
            return found
    assert len(found) == len(exits), f"all exits must run, got {len(found)} of {len(exits)}"
    return found
