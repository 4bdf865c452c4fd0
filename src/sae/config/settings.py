"""Settings in general: merging, checking, comparing, and reading and writing them as YAML.

A `Settings` model is frozen and refuses unknown keys, suggesting the nearest known one.
An error is one sentence that names the setting by its path.
"""

import re
from collections.abc import Hashable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar, TypeGuard, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sae.config.plain_yaml import Skeleton, read_alike, read_plain, split_plain, template_of
from sae.core.errors import ConfigError, did_you_mean
from sae.core.reading import read_file

try:
    from yaml import CSafeLoader as SafeLoader  # 7 × as fast
except ImportError:
    from yaml import SafeLoader  # type: ignore[assignment]

Layer = Mapping[str, Any]
"""Settings before they are checked: a mapping as YAML holds it, so the values may be anything."""
Values = dict[str, Any]
"""A layer that was just read or merged; the caller owns it and may change it."""

LARGEST_FILE = 1 << 20
"""Bytes of a config file; those of large studies have some thousand."""
DEEPEST = 50
"""Levels of nested sections and lists in YAML."""
MOST_VALUES = 100_000
"""Values in YAML once aliases are written out."""
NESTING = ("[", "{", "- -", "? ?", "&")
"""What deep nesting and aliases cannot do without; a block by indentation has to be long, too."""
OLD_NUMBER = re.compile(r"[-+]?(0[0-9_]|[0-9.]*[_:])")
"""Numbers with a leading 0, with underscores, or to base 60."""
NO_MAPPINGS = (str, int, float, type(None), BaseModel)
LARGEST = 64
"""Upper limit of widths, inputs, members, repetitions and threads: far more exhausts the memory."""


class Settings(BaseModel):
    """A frozen group of settings that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    has_kinds: ClassVar[bool] = False
    """Whether a section's name decides which subclass it is checked against."""

    @classmethod
    def class_of(cls, name: object, setting: str = "name") -> "type[Settings]":
        """Return the class of a section that has this name; by default there is only one.

        Args:
            name: The section's setting `name`, which is not checked yet.
            setting: Its name in an error.
        """
        del name, setting
        return cls

    @classmethod
    def choose_class(cls, values: object) -> object:
        """Check a mapping against the class that its name selects; a validator for fields of this type."""
        if not isinstance(values, Mapping):
            return values
        return cls.class_of(values.get("name")).model_validate(dict(values))


Model = TypeVar("Model", bound=Settings)


def later(default: Any, **facts: Any) -> Any:
    """Declare a setting that was added when folders were already in use: its default is not written.

    The config of an older trial then stays the same, and so does the name of its folder, which depends on it.

    Args:
        default: The default, which must keep the earlier behaviour.
        facts: Everything else that pydantic's `Field` takes.
    """
    return Field(default, exclude_if=lambda value: value == default, **facts)


def merge(below: Layer, above: Layer) -> Values:
    """Lay one mapping over another, section by section.

    A section with another name (`method: {name: standard}` over `sae`) replaces the one below
    it, because the two have different settings. A section may be given by its name alone.

    Example:
        >>> merge({"method": {"name": "sae", "inputs": 2}}, {"method": "standard"})
        {'method': {'name': 'standard'}}
    """
    merged = dict(below)
    for key, value in above.items():
        merged[key] = _lay_over(key, merged.get(key), value)
    return merged


def _lay_over(key: str, below: object, above: object) -> object:
    if isinstance(below, str) and isinstance(above, Mapping):
        below = {"name": below}
    if isinstance(above, str) and isinstance(below, Mapping):
        above = {"name": above}
    if below is None or not (isinstance(below, Mapping) or isinstance(above, Mapping)):
        return above
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        wrong = above if isinstance(below, Mapping) else below
        raise ConfigError(f"{key} must be a section of settings, got {wrong!r}")
    is_same_kind = "name" not in above or above["name"] == below.get("name", above["name"])
    return merge(below, above) if is_same_kind else above


def section_name(section: object) -> object:
    """Return the name in a section of settings, which may be given by its name alone, or None without a name.

    Nothing is checked: before settings are parsed, the name may be anything.

    Example:
        >>> section_name("sae"), section_name({"name": "sae", "inputs": 2}), section_name({"inputs": 2})
        ('sae', 'sae', None)
    """
    return section.get("name") if isinstance(section, Mapping) else section


def parse(model: type[Model], values: Layer) -> Model:
    """Check a plain mapping against a model; an error is one sentence."""
    problem = next(_problems(model, values, ""), None)
    if problem:
        raise ConfigError(problem)
    return _validate(model, values)


def _validate(model: type[Model], values: Layer) -> Model:
    """Check the values of a mapping whose keys are known."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(_first_sentence(error)) from None


def read_yaml(path: Path) -> Values:
    """Read a mapping from a YAML file (safe loader: nothing in it is executed, and its size is limited)."""
    return _values_of(_read_text(path), path)


def read_settings(model: type[Model], path: Path) -> Model:
    """Read a YAML file and check it against a model, as `parse` and `read_yaml` do.

    The thousands of configs of a study share most of their sections, so a section is read and checked once for each
    text that it has, and its keys once for all texts that differ in numbers only.
    """
    text = _read_text(path)
    shared = _read_pieces(model, text)
    return parse(model, _values_of(text, path)) if shared is None else _validate(model, shared)


def _read_text(path: Path) -> str:
    try:
        content = read_file(str(path), LARGEST_FILE)
        if len(content) > LARGEST_FILE:
            raise ConfigError(f"config file must have at most {LARGEST_FILE:,} bytes, got {path}")
        return content.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"config file must be readable, got {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise _not_yaml(path, error) from None


def _values_of(text: str, path: Path) -> Values:
    try:
        values = read_plain(text) or _load_yaml(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _not_yaml(path, error) from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"config file must hold a mapping, got a {type(values).__name__} in {path}")
    return values


def _not_yaml(path: Path, error: Exception) -> ConfigError:
    where = str(error).replace("\n", " ")
    return ConfigError(f"config file must be YAML, got {path}: {where}")


def _read_pieces(model: type[Settings], text: str) -> Layer | None:
    """Return the sections of a plain text, checked where possible; None if one is wrong or not plain."""
    pieces = split_plain(text)
    found = [_read_piece(model, piece) for piece in pieces]
    values = dict(item for item in found if item is not None)
    return values if len(values) == len(pieces) else None


@lru_cache(maxsize=1024)
def _read_piece(model: type[Settings], piece: str) -> tuple[str, object] | None:
    """Return the key and value of a piece; a section is checked unless its check depends on another section."""
    found = read_alike(piece)
    if found is None or not _is_known(model, found[1]):
        return None
    ((key, value),) = found[0].items()
    section = _section_model(model, key) if key in model.model_fields else None
    if section is None or section.has_kinds or not isinstance(value, dict):
        return key, value
    try:
        return key, parse(section, value)
    except ConfigError:  # the check of the whole finds it again, and names its path
        return None


@lru_cache(maxsize=256)
def _is_known(model: type[Settings], skeleton: Skeleton) -> bool:
    """Return whether plain texts with this skeleton have one key, and neither it nor those inside it are a problem."""
    values = template_of(skeleton)
    try:
        return values is not None and len(values) == 1 and not any(_problems(model, values, ""))
    except ConfigError:  # an unknown name; the check of the whole finds it again, with its value
        return False


def to_yaml(config: Settings) -> str:
    """Return all settings as YAML, also those at their defaults."""
    return yaml.dump(config.model_dump(mode="json"), Dumper=_Dumper, sort_keys=False)


def from_assignments(assignments: list[str]) -> Values:
    """Read assignments such as `train.lr=1e-3` as a layer; values are YAML.

    Example:
        >>> from_assignments(["train.lr=1e-3", "data.flip=true"])
        {'train': {'lr': 0.001}, 'data': {'flip': True}}
    """
    layer: Values = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not all(path.split(".")):
            raise ConfigError(f"--set takes section.key=value, got {assignment!r}")
        first, *rest = path.split(".")
        nested = _read_value(text)
        for key in reversed(rest):
            nested = {key: nested}
        layer = merge(layer, {first: nested})
    return layer


def differences(one: Settings, other: Settings) -> list[str]:
    """Return the settings in which two configs of the same class differ, each with both values."""
    left, right = (dict(flatten(config.model_dump(mode="json"))) for config in (one, other))
    keys = [*left, *(key for key in right if key not in left)]
    return [f"{key} {left.get(key)} → {right.get(key)}" for key in keys if left.get(key) != right.get(key)]


def _load_yaml(text: str) -> Any:
    """Return the value of a YAML text; raise a YAMLError for anything wrong with it.

    The C parser would overflow its stack at a hundred thousand brackets, so the nesting is checked first.
    """
    if len(text) > DEEPEST**2 or sum(map(text.count, NESTING)) > DEEPEST or "&" in text:
        _check_nesting(text)
    try:
        return yaml.load(text, _Loader)
    except (ValueError, AttributeError, TypeError, KeyError, IndexError, OverflowError) as error:
        if isinstance(error, UnicodeError):
            raise
        # The constructors of dates, numbers and other tags raise whatever happens to go wrong in them.
        raise yaml.YAMLError(f"a value does not fit its tag ({error})") from None


def _check_nesting(text: str) -> None:
    """Refuse YAML that is nested too deeply, refers to itself, or grows too large once its aliases are written out."""
    sizes: dict[str, int | None] = {}  # values behind each anchor; None while it is incomplete
    stack: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            known = sizes.get(event.anchor or "", 0)
            if known is None:
                raise yaml.YAMLError(f"{event.anchor!r} refers to itself")
            total += known or 1
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            total += 1
            if event.anchor is not None:
                sizes[event.anchor] = 1 if isinstance(event, yaml.ScalarEvent) else None
            if isinstance(event, yaml.CollectionStartEvent):
                stack.append((event.anchor, total))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = stack.pop()
            if anchor is not None:
                sizes[anchor] = total - before + 1
        if len(stack) > DEEPEST:
            raise yaml.YAMLError(f"it must be nested at most {DEEPEST} levels deep")
        if total > MOST_VALUES:
            raise yaml.YAMLError(f"it must hold at most {MOST_VALUES:,} values, with its aliases written out")


class _Loader(SafeLoader):
    """A loader that executes nothing and refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep)
            if not isinstance(key, Hashable):
                break  # refused by the loader itself
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} is given twice", node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _number(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    """Return a number; refuse what YAML 1.1 reads as one in a way that surprises: 1:30 is 90 there, and 010 is 8."""
    if OLD_NUMBER.match(node.value):
        problem = f"{node.value} is read in several ways: write a plain number, or a text in quotes"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
    is_int = node.tag == "tag:yaml.org,2002:int"
    found: int | float = loader.construct_yaml_int(node) if is_int else loader.construct_yaml_float(node)
    return found


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _number)


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes every string that `_Loader` would read as something else."""


for _side in (_Loader, _Dumper):  # YAML 1.1 reads 1e-3 as a string, everybody else as a number
    _side.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
    )


def _read_value(text: str) -> object:
    try:
        value: object = _load_yaml(text)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None)
        why = f": {problem}" if problem else ""
        raise ConfigError(f"--set takes a value that is YAML, got {text!r}{why}") from None
    return value


def flatten(values: Layer, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield every setting with its path, such as `train.lr`."""
    for key, value in values.items():
        if _is_mapping(value):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _is_mapping(value: object) -> TypeGuard[Layer]:
    """Return whether a value is a mapping; for most values, which are scalars, the abstract class is slow to ask."""
    return isinstance(value, dict) or (not isinstance(value, NO_MAPPINGS) and isinstance(value, Mapping))


@cache  # of the few classes of settings; a study asks for thousands of configs
def _section_model(model: type[Settings], key: str) -> type[Settings] | None:
    """Return the class of a field that is a section of settings, otherwise None."""
    annotation = model.model_fields[key].annotation
    found = (item for item in (annotation, *get_args(annotation)) if isinstance(item, type))
    return next((item for item in found if issubclass(item, Settings)), None)


def _problems(model: type[Settings], values: Layer, prefix: str) -> Iterator[str]:
    """Yield a sentence for each unknown key, and for each `true` that would pass for the number 1."""
    fields = model.model_fields
    for key, value in values.items():
        if key not in fields:
            yield _unknown(f"{prefix}{key}", str(key), model, prefix)
            continue
        if isinstance(value, bool) and fields[key].annotation is not bool:
            yield f"{prefix}{key} must not be true or false"
        section = _section_model(model, key) if _is_mapping(value) else None
        if section is not None and _is_mapping(value):
            named = section.class_of(value.get("name"), f"{prefix}{key}.name")
            yield from _problems(named, value, f"{prefix}{key}.")


OTHER_NAMES = {"learning_rate": "lr", "num_epochs": "epochs", "batch": "batch_size", "early_stopping": "patience"}
"""Names that other libraries give to settings."""


def _unknown(path: str, key: str, model: type[Settings], prefix: str) -> str:
    known = list(model.model_fields)
    name = model.model_fields["name"].default if "name" in model.model_fields else None
    owner = f" for {name}" if isinstance(name, str) else ""
    listed = ", ".join(f"{prefix}{name}" for name in known)
    usual = OTHER_NAMES.get(key, key)
    inner = {name: field.annotation for name, field in model.model_fields.items()}
    owners = [name for name, kind in inner.items() if usual in getattr(kind, "model_fields", {})]
    nearest = [usual] if usual in known else [f"{name}.{usual}" for name in owners]
    hint = f", did you mean {prefix}{nearest[0]}?" if nearest else did_you_mean(key, known, prefix)
    return f"unknown setting {path}{owner}{hint}; known: {listed}"


def _first_sentence(error: ValidationError) -> str:
    """Return pydantic's first complaint as `path must …, got …`."""
    first = error.errors()[0]
    path = ".".join(map(str, first["loc"]))
    message = (
        first["msg"]
        .removeprefix("Value error, ")
        .replace("Input should", "must", 1)
        .replace("Field required", "is required", 1)
        .replace("a valid tuple", "a list", 1)
    )
    if not path or message.startswith(f"{path}."):  # about settings as a whole, in a sentence of its own
        return message
    given = "" if first["type"] == "missing" else f", got {first['input']!r}"
    return f"{path} {message}{given}"
