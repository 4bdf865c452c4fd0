"""Weights from a file: a state dict, of which nothing is executed, loaded into a network that it fits."""

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

from sae.config.backbones import EFFICIENTNETS, WeightsSettings
from sae.config.settings import Layer, Values
from sae.core.errors import ConfigError, require
from sae.core.trust import sha256_of_file

COUNTER = "num_batches_tracked"
"""The end of the names of BatchNorm's counters, which nothing here reads and old files do not have."""
MOST_NAMED = 3


def checked_file(name: str, sha256: str | None) -> Path:
    """Return the file of weights, if it has the hash that was recorded when the settings were made."""
    file = Path(name)
    if not file.is_file():
        raise ConfigError(f"weights must be in a file that can be read, got {file}: give another --weights-file")
    if sha256 not in (None, sha256_of_file(file)):
        raise ConfigError(
            f"{file} must hold the weights that these settings were made with, but its SHA-256 is not "
            f"{str(sha256)[:12]}…: bring that file back, or train again"
        )
    return file


def published_weights(name: str) -> str:
    """Return the file in the package with the weights of a network; the package is not imported."""
    package = EFFICIENTNETS[name]
    require(package, f"--pretrained with {name}")
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    found = [file for folder in folders or () for file in sorted(Path(folder).glob("models/*.pth"))]
    if not found:
        raise ConfigError(f"the package {package} must hold models/*.pth, but holds none: install it again")
    return str(found[0])


def describe_weights(name: str, given: Layer) -> Values:
    """Return the hash of the weights that settings of a backbone name, if they name any that are in a file."""
    file = given.get("weights_file")
    if file is None and name in EFFICIENTNETS and WeightsSettings.are_kept(given):
        file = published_weights(name)
    known = given.get("weights_sha256")
    return {} if file is None else {"weights_sha256": sha256_of_file(checked_file(str(file), known))}


def load_weights(module: nn.Module, file: Path, unused: str | None = None) -> None:
    """Load a state dict into a network.

    Args:
        module: The network.
        file: Its weights.
        unused: Start of the names of its layers that no exit uses, whose weights may differ.
    """
    given, wanted = (_used(state, unused) for state in (read_state(file), module.state_dict()))
    _refuse(file, "lacks", (name for name in wanted if name not in given))
    _refuse(file, "has, and the network lacks,", (name for name in given if name not in wanted))
    shapes = {name: (list(given[name].shape), list(value.shape)) for name, value in wanted.items()}
    _refuse(
        file,
        "has in another shape",
        (f"{name} ({found} for {size})" for name, (found, size) in shapes.items() if found != size),
    )
    module.load_state_dict(given, strict=False)


def read_state(file: Path) -> dict[str, Tensor]:
    """Read a state dict, as safetensors or as torch saves it, without running anything that the file holds."""
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(file)
        else:
            state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can fail in any way
        raise _no_state(file, f"it cannot be read ({type(error).__name__})") from None
    if not isinstance(state, Mapping) or not state:
        raise _no_state(file, f"it holds {'nothing' if isinstance(state, Mapping) else type(state).__name__}")
    wrong = next((name for name, value in state.items() if not isinstance(value, Tensor)), None)
    if wrong is not None:
        raise _no_state(file, f"its entry {wrong!r} is no tensor")
    return dict(state)


def _no_state(file: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"weights must be a state dict, written by safetensors or by torch.save(network.state_dict(), FILE), got "
        f"{file}: {reason}"
    )


def _used(state: Mapping[str, Tensor], unused: str | None) -> dict[str, Tensor]:
    names = (name for name in state if unused is None or not name.startswith(unused))
    return {name: state[name] for name in names if not name.endswith(COUNTER)}


def _refuse(file: Path, how: str, names: Iterable[str]) -> None:
    found = list(names)
    if found:
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        raise ConfigError(
            f"the weights must fit the network, but {file} {how} {', '.join(found[:MOST_NAMED])}{more}: give the "
            "weights of this network, or another --backbone"
        )
