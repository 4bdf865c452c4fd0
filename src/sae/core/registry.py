"""Registries: one entry for each method, backbone and metric, from this package or another.

Another package adds an entry from its own code, with a decorator such as `register_method`. The
command line finds it by an entry point whose name is that of the method, backbone or metric:

    [project.entry-points."sae.methods"]
    my_method = "my_package.settings"
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

from sae.core.errors import ConfigError, NotRegisteredError

Reference = str | Callable[..., Any]
"""A function or class, or where to find it: `package.module:attribute`, imported on first use."""

_modules: dict[str, None] = {}


class Named(Protocol):
    """An entry of a registry."""

    @property
    def name(self) -> str:
        """The name that users write."""


Entry = TypeVar("Entry", bound=Named)


class Registry(Generic[Entry]):
    """Entries by name, in the order in which they were registered.

    Entry points of other packages are loaded only when they are needed: one when its name is asked
    for, all of them when a name is not found or the registry is iterated.

    Args:
        noun: Word for an entry in messages, such as `method`.
        group: The group of entry points where other packages announce theirs.
        kind: The class of the entries.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Shape:
        ...     name: str
        >>> shapes = Registry("shape", "example.shapes", Shape)
        >>> shapes.register(Shape("circle"))
        >>> shapes.get("circle"), "square" in shapes, shapes.names()
        (Shape(name='circle'), False, ['circle'])
    """

    def __init__(self, noun: str, group: str, kind: type[Entry]) -> None:
        self.noun, self.group, self.kind = noun, group, kind
        self._entries: dict[str, Entry] = {}
        self._announced: dict[str, EntryPoint] | None = None

    def register(self, entry: Entry) -> None:
        """Add an entry; a name can be registered only once."""
        if self._entries.setdefault(entry.name, entry) != entry:
            raise ConfigError(f"a {self.noun} must have a new name, got {entry.name!r}, which is registered already")
        _modules.setdefault(_registering_module())

    def get(self, name: object, setting: str | None = None) -> Entry:
        """Return the entry of this name.

        Args:
            name: As a user gave it, so perhaps not even a text.
            setting: Its name in the error, such as `method.name`; by default the noun.
        """
        entry = self._find(name) if isinstance(name, str) else None
        if entry is None:
            raise NotRegisteredError(self.noun, name, self.names(), setting or self.noun)
        return entry

    def names(self) -> list[str]:
        """Return all names without importing anything: of entries, then of entry points that are not loaded."""
        return list(dict.fromkeys([*self._entries, *self._waiting()]))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def __iter__(self) -> Iterator[Entry]:
        self._load_all()
        return iter(list(self._entries.values()))

    def _find(self, name: str) -> Entry | None:
        if name not in self._entries and name in self._waiting():
            self._load(name)
        if name not in self._entries:
            self._load_all()
        return self._entries.get(name)

    def _waiting(self) -> dict[str, EntryPoint]:
        """Return the entry points that are not loaded, by name."""
        if self._announced is None:
            found = sorted(entry_points(group=self.group), key=lambda point: point.name)
            self._announced = {point.name: point for point in found}
        return self._announced

    def _load_all(self) -> None:
        for name in list(self._waiting()):
            self._load(name)

    def _load(self, name: str) -> None:
        """Load an entry point; one that fails is left out with a warning, so that the rest can be used."""
        point = self._waiting().pop(name)
        try:
            loaded = point.load()
            if isinstance(loaded, self.kind):
                self.register(loaded)
        except Exception as error:
            package = f"{point.dist.name} {point.dist.version}" if point.dist else point.module
            reason = f"{type(error).__name__}: {error}"
            warnings.warn(
                f"the {self.noun} {name} of the package {package} is left out, because {point.value} "
                f"cannot be loaded: {reason}",
                stacklevel=2,
            )


def resolve_reference(reference: Reference) -> Callable[..., Any]:
    """Return what a reference points to.

    Example:
        >>> resolve_reference("math:sqrt")(9.0)
        3.0
    """
    if not isinstance(reference, str):
        return reference
    module, _, attribute = reference.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), attribute)
    return found


def plugin_modules() -> tuple[str, ...]:
    """Return the modules of other packages that have registered something: a worker process imports them too."""
    return tuple(name for name in _modules if name != "__main__" and not _is_ours(name))


def _registering_module() -> str:
    """Return the name of the module whose code is registering an entry."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(_module_of(frame)) and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return _module_of(frame)


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == "sae"
