"""The base of all method settings, kinds and schedules of methods, and their registry.

One entry holds everything the system needs to know about a method. The rest of the system asks the settings or the
entry, and never compares names.
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
"""The target of each member in distillation: the mean of the teacher's members, or one of them."""


@dataclass(frozen=True)
class Kind:
    """A group of methods in tables and figures.

    Attributes:
        key: Name in files and on the command line, such as `EE`.
        label: Name in tables and figures, such as `SAE: EE`.
        phrase: Name in a sentence, such as `one network with early exits`.
        colour: Colour of its marks on white paper.
        marker: A shape of Vega, a name in `report.labels.MARKERS`, or an SVG path in [-1, 1]².
    """

    key: str
    label: str
    phrase: str
    colour: str
    marker: str


DEFAULT_COLOURS = ("#3A7D34", "#B3261E", "#6A4FB3", "#8A6A00", "#00695C")
DEFAULT_MARKERS = ("diamond", "triangle-down", "triangle-right", "star")
"""For methods that declare no kinds of their own."""


def default_kind(name: str) -> Kind:
    """Return the kind of a method that declares none: its colour and marker depend on its name."""
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
    """Settings of a method, and everything the system asks about it.

    A subclass fixes `name` to a literal. The defaults here suit a method without early exits.

    Attributes:
        has_exits: Whether a network has early exits, some of which each input uses.
        member_word: Word for one of the averaged predictions, if they do not belong to several inputs.
        members_from: The method whose larger ensembles hold this method's networks as their first members.
        can_compile: Whether `Method.trained_networks` names the modules that `train.compile` compiles.
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
        """Whether the trained network can be evaluated at another K′ than the K it was trained for."""
        return self.has_exits

    @property
    def num_inputs(self) -> int:
        """N, the samples that the network reads at once."""
        return 1

    @property
    def num_slots(self) -> int:
        """The rows of the exit distribution: one for each input, or for each pair of stream and input."""
        return self.num_inputs

    @property
    def num_members(self) -> int:
        """The number of networks that are trained apart."""
        return 1

    def kind(self, depth: int) -> str:
        """Return the key of the kind that results are grouped by, on a backbone of this depth."""
        del depth
        return self.name

    def called(self, depth: int) -> str:
        """Return the kind to name it by, which may differ from the kind it is grouped with."""
        return self.kind(depth)

    def called_using(self, num_exits: int, depth: int) -> str:
        """Return the kind to name it by if only this many exits are in use."""
        del num_exits
        return self.called(depth)

    def summary(self) -> list[str]:
        """Return the settings that distinguish runs of the method, `["N=2", "K=3"]`."""
        return []

    def grid_cell(self) -> tuple[int, int] | None:
        """Return N and K for a method that is studied over both, otherwise None."""
        return None

    def teacher_matches(self, depth: int) -> tuple[TeacherMatch, ...]:
        """Return how the method can learn from a teacher on a backbone of this depth; by default it cannot.

        A method that can must pass `Batch.guidance` to its loss. Only members that stay the same during training can
        have a teacher each.
        """
        del depth
        return ()

    def check(self, backbone: BackboneSource) -> None:
        """Raise a `ConfigError` if the method cannot be trained on this backbone."""

    def cheapest(self) -> "MethodSettings":
        """Return the cheapest settings at which a trained network can be evaluated."""
        return self


@dataclass(frozen=True)
class MethodEntry:
    """Everything that the system needs to know about a method.

    Attributes:
        settings: The class of its settings, which also answers questions that depend on them.
        build: Builds a `Method` from its settings, a backbone and a `DataSpec`.
        kinds: All kinds that `settings.kind` may return.
        space: Settings that a search varies, with holes as in YAML.
        small: Settings of a small network for tests.
        rival: Phrase for the best run of this method if picks are compared with it, such as `deep ensemble`; else None.
        batch_sizes: From usual batch sizes to those that suit the method better.
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
    """Return the keys of the kinds whose networks can be evaluated at several K′."""
    return {kind.key for entry in METHODS if entry.settings.has_exits for kind in entry.kinds}


def rivals() -> dict[str, str]:
    """Return the phrases for a pick's rivals by method; the method that trains most networks comes first."""
    entries = [entry for entry in METHODS if entry.rival is not None]
    entries.sort(key=lambda entry: -entry.settings.model_validate(entry.small).num_members)
    return {entry.name: str(entry.rival) for entry in entries}
