"""Answers that every method gives to the system, its kinds and schedules, and the registry of methods.

One entry holds all that the system needs to know about a method; the rest of the system asks the settings or the
entry, and compares no names.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, TypeVar

from pydantic import Field

from sae.config.backbones import BackboneSource
from sae.config.settings import Layer, Settings
from sae.core.registry import Reference, Registry

TeacherMatch = Literal["mean", "members"]
"""What a member of a network learns from: the mean of its teacher's members, or one of them."""


@dataclass(frozen=True)
class Kind:
    """A class of methods as people meet it.

    Attributes:
        key: In files and on the command line, such as `EE`.
        label: In tables and figures, such as `SAE: EE`.
        phrase: In a sentence, such as `one network with early exits`.
        colour: Of its marks on white paper.
        marker: A shape of Vega, a name in `report.labels.MARKERS`, or an SVG path in [-1, 1]².
    """

    key: str
    label: str
    phrase: str
    colour: str
    marker: str


DEFAULT_COLOURS = ("#3A7D34", "#B3261E", "#6A4FB3", "#8A6A00", "#00695C")
DEFAULT_MARKERS = ("diamond", "triangle-down", "triangle-right", "star")
"""For methods that bring no kinds of their own."""


def default_kind(name: str) -> Kind:
    """Return the kind of a method that brings none: its colour and marker depend on its name."""
    label, number = name.replace("_", " "), zlib.crc32(name.encode())
    return Kind(
        name,
        label,
        label,
        DEFAULT_COLOURS[number % len(DEFAULT_COLOURS)],
        DEFAULT_MARKERS[number % len(DEFAULT_MARKERS)],
    )


class Schedule(Settings):
    """A value that moves linearly over the training steps."""

    start: float
    end: float

    def at(self, progress: float) -> float:
        """Return the value at a progress in [0, 1].

        Example:
            >>> Schedule(start=1.0, end=0.0).at(0.25)
            0.75
        """
        return self.start * (1 - progress) + self.end * progress  # exact at both ends


class UnitSchedule(Schedule):
    """A schedule of fractions, in [0, 1]."""

    start: float = Field(ge=0, le=1)
    end: float = Field(ge=0, le=1)


class TemperatureSchedule(Schedule):
    """A schedule of temperatures, in [1e-3, 1]."""

    start: float = Field(ge=1e-3, le=1)
    end: float = Field(ge=1e-3, le=1)


class MethodSettings(Settings):
    """Settings of a method, and its answers to what the system asks of every method.

    A subclass fixes `name` to a literal. The answers here are those of a method without early exits.

    Attributes:
        has_exits: Whether a network has early exits, of which each of its inputs uses some.
        member_word: What people call one of the predictions that are averaged, where they are not of several inputs.
        members_from: The method whose larger ensembles hold this method's networks as their first members.
        can_compile: Whether `Method.trained_networks` names what `train.compile` is to compile.
    """

    has_kinds = True
    has_exits: ClassVar[bool] = False
    member_word: ClassVar[str] = "member"
    members_from: ClassVar[str | None] = None
    can_compile: ClassVar[bool] = False

    name: str

    @classmethod
    def class_of(cls, name: object, setting: str = "method.name") -> "type[MethodSettings]":
        """Return the settings class of a registered method."""
        return METHODS.get(name, setting).settings

    @classmethod
    def defaults_at(cls, depth: object) -> dict[str, object]:
        """Return the settings whose defaults differ on a backbone of this depth."""
        del depth
        return {}

    def with_defaults(self, defaults: Mapping[str, object]) -> Self:
        """Return these settings with other defaults, where a setting has one and was not given."""
        new = {key: value for key, value in defaults.items() if key in type(self).model_fields}
        unset = {key: new[key] for key in new.keys() - self.model_fields_set}
        return type(self).model_validate({**self.model_dump(), **unset})

    @property
    def trained_exits(self) -> int:
        """K, the exits per input that the network is trained for."""
        return 1

    @property
    def can_choose_exits(self) -> bool:
        """Whether the trained network can be read at another number of exits K′ than the K it was trained for."""
        return self.has_exits

    @property
    def num_inputs(self) -> int:
        """N, the samples that the network reads at once."""
        return 1

    @property
    def num_slots(self) -> int:
        """What uses exits: N inputs, or as many pairs of a stream and an input as there are."""
        return self.num_inputs

    @property
    def num_members(self) -> int:
        """The number of networks that are trained apart."""
        return 1

    def kind(self, depth: int) -> str:
        """Return the key of the class of methods that results are grouped by, on a backbone of this depth."""
        del depth
        return self.name

    def called(self, depth: int) -> str:
        """Return the kind whose name people give it, where that is not its own."""
        return self.kind(depth)

    def called_using(self, num_exits: int, depth: int) -> str:
        """Return the kind whose name people give it if only this many exits are in use."""
        del num_exits
        return self.called(depth)

    def summary(self) -> list[str]:
        """Return the settings that tell two runs of the method apart, `["N=2", "K=3"]`."""
        return []

    def grid_cell(self) -> tuple[int, int] | None:
        """Return N and K for a method that is studied over both, otherwise None."""
        return None

    def teacher_matches(self, depth: int) -> tuple[TeacherMatch, ...]:
        """Return how the method can learn from a teacher on a backbone of this depth: not at all, unless it says so.

        A method that does passes `Batch.guidance` to its loss. Only members that stay the same in training can have a
        teacher each.
        """
        del depth
        return ()

    def check(self, backbone: BackboneSource) -> None:
        """Raise a `ConfigError` if the method cannot be trained on this backbone."""

    def cheapest(self) -> "MethodSettings":
        """Return the settings that cost least among those that a trained network can be read at."""
        return self


@dataclass(frozen=True)
class MethodEntry:
    """All that the system needs to know of a method.

    Attributes:
        settings: The class of its settings, which answers what depends on them.
        build: From settings, backbone settings and a `DataSpec` to a `Method`.
        kinds: What `settings.kind` may return.
        space: What a search varies of the settings, with holes as in YAML.
        small: Settings of a small one for tests.
        rival: What a pick is compared with, such as `deep ensemble`: the best run of this method. None for no rival.
        batch_sizes: Batch sizes that suit the method, by the usual one that they replace.
        influences: Settings whose effect a report shows: label to path, such as `N` to `method.inputs`.
    """

    settings: type[MethodSettings]
    build: Reference
    kinds: tuple[Kind, ...]
    space: Layer
    small: Layer
    rival: str | None
    batch_sizes: Mapping[int, int]
    influences: Mapping[str, str]

    @property
    def name(self) -> str:
        """The name that users write."""
        name: str = self.settings.model_fields["name"].default
        return name


METHODS = Registry("method", "sae.methods", MethodEntry)

Method = TypeVar("Method", bound=MethodSettings)


def register_method(
    build: Reference,
    *,
    kinds: tuple[Kind, ...] = (),
    space: Layer | None = None,
    small: Layer | None = None,
    rival: str | None = None,
    batch_sizes: Mapping[int, int] | None = None,
    influences: Mapping[str, str] | None = None,
) -> Callable[[type[Method]], type[Method]]:
    """Register a method by decorating the class of its settings.

    The arguments are those of `MethodEntry`. A method without kinds is one kind by itself, and
    gets a colour and a marker that depend on its name.
    """

    def register(settings: type[Method]) -> type[Method]:
        own = kinds or (default_kind(settings.model_fields["name"].default),)
        METHODS.register(
            MethodEntry(settings, build, own, space or {}, small or {}, rival, batch_sizes or {}, influences or {})
        )
        return settings

    return register


def all_kinds() -> dict[str, Kind]:
    """Return the kinds of all methods by key, in the order of the paper: methods with exits come last."""
    entries = sorted(METHODS, key=lambda entry: entry.settings.has_exits)
    return {kind.key: kind for entry in entries for kind in entry.kinds}


def kinds_with_exits() -> set[str]:
    """Return the keys of the kinds whose networks can be read at several numbers of exits."""
    return {kind.key for entry in METHODS if entry.settings.has_exits for kind in entry.kinds}


def rivals() -> dict[str, str]:
    """Return what a pick is compared with, phrases by method; the method that trains most networks comes first."""
    entries = [entry for entry in METHODS if entry.rival is not None]
    entries.sort(key=lambda entry: -entry.settings.model_validate(entry.small).num_members)
    return {entry.name: str(entry.rival) for entry in entries}


def rival_label(role: str, kind: str, called: str) -> str:
    """Return the label of a pick's rival; an ensemble of one is called a standard network.

    Args:
        role: The rival's method.
        kind: The class of methods that it is grouped with.
        called: The kind whose name people give it.
    """
    if called == kind:
        return rivals().get(role, role)
    return f"{all_kinds()[called].phrase.removeprefix('a ')} (an {role} of one)"
