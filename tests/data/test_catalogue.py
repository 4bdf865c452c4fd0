import subprocess
import sys
from pathlib import Path

import pooch
import pytest

from sae.cli.training import resolve_run
from sae.config.methods import SaeConfig, StandardConfig
from sae.config.run import parse_run
from sae.core.errors import ConfigError, DataError
from sae.data.catalogue import CATALOGUE, load, published_files, resolve, suggestions
from sae.data.locations import cache_root, choose_data_root, data_roots, find_own
from tests.data.samples import data_config, write_npz


@pytest.mark.parametrize("name", CATALOGUE)
def test_what_a_set_suggests_is_a_valid_run(name: str) -> None:
    assert parse_run(suggestions(name)).data.name == name


@pytest.mark.parametrize("name", CATALOGUE)
def test_what_a_set_suggests_is_a_valid_run_of_a_standard_network(name: str) -> None:
    assert isinstance(parse_run(suggestions(name), {"method": {"name": "standard"}}).method, StandardConfig)


@pytest.mark.parametrize(
    ("name", "backbone", "epochs", "batch_size", "weight_decay"),
    [
        ("pneumoniamnist", "fc", 50, 64, 1e-5),
        ("bloodmnist", "vgg", 50, 128, 1e-5),
        ("retinamnist", "vit", 50, 64, 1e-5),
        ("tinyimagenet", "resnet", 100, 128, 0.0),
    ],
)
def test_the_papers_settings_are_suggested(
    name: str, backbone: str, epochs: int, batch_size: int, weight_decay: float
) -> None:
    config = parse_run(suggestions(name))
    assert config.backbone.name == backbone
    assert (config.train.epochs, config.train.batch_size) == (epochs, batch_size)
    assert (config.train.weight_decay, config.train.lr) == (weight_decay, 3e-4)
    assert (config.data.crop, config.data.flip) == (4, True)


def test_batches_of_tiny_imagenet_are_not_repeated() -> None:
    method = parse_run({"method": {"name": "sae"}}, suggestions("tinyimagenet"), {"method": {"inputs": 3}}).method
    assert isinstance(method, SaeConfig)
    assert (method.inputs, method.batch_repetition) == (3, 1)


def test_layers_go_over_what_the_data_set_suggests() -> None:
    config = resolve({"data": "digits", "train": {"epochs": 3, "lr": 0.1}}, {"train": {"epochs": 5}})
    assert (config.train.epochs, config.train.lr, config.data.crop, config.backbone.name) == (5, 0.1, 1, "fc")


def test_python_and_the_command_line_make_the_same_run(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("data: tinyimagenet\ntrain: {epochs: 7}\n")
    flags = {"method": {"name": "batch_ensemble", "members": 3}}
    from_python = resolve({"data": {"name": "tinyimagenet"}, "train": {"epochs": 7}}, flags, {"train": {"lr": 0.5}})
    assert resolve_run(tmp_path / "run.yaml", flags, ["train.lr=0.5"]) == from_python
    assert (from_python.train.batch_size, from_python.data.crop) == (144, 4)


def test_settings_without_data_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.name must be set: give --data NAME, or data\.name"):
        resolve({"method": "standard"})


def test_the_catalogue_is_light() -> None:
    code = (
        "import sys, sae.data.catalogue; print([m for m in ('torch', 'sklearn', 'PIL', 'pooch') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(DataError, match=r"got 'bloodminst', did you mean bloodmnist\?"):
        suggestions("bloodminst")


def test_the_set_with_several_labels_says_why_it_is_not_there() -> None:
    with pytest.raises(DataError, match="chestmnist cannot be used: its samples have several labels at once"):
        suggestions("chestmnist")


def test_a_path_that_does_not_exist_is_named() -> None:
    with pytest.raises(DataError, match=r"an existing file or folder, got 'no/such\.npz'"):
        suggestions("no/such.npz")


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(DataError, match=r"data must be a folder, \.npz, .*a\.txt"):
        suggestions(str(tmp_path / "a.txt"))


@pytest.mark.parametrize("setting", [{"size": 64}, {"target": "x"}])
def test_a_setting_that_would_be_ignored_is_refused(setting: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="has no effect on digits"):
        load(data_config("digits", **setting))


def test_an_embedded_table_cannot_be_flipped() -> None:
    with pytest.raises(ConfigError, match=r"data\.flip must be off for diabetes"):
        load(data_config("diabetes", flip=True))


def test_another_task_than_the_sets_own_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.task must be classification for digits, got regression"):
        load(data_config("digits", task="regression"))


def test_each_size_has_its_file() -> None:
    assert published_files("pneumoniamnist", 64)[0].name == "pneumoniamnist_64.npz"
    assert published_files("pneumoniamnist")[0].url.endswith("/10519652/files/pneumoniamnist.npz?download=1")


def test_a_size_that_is_not_published_is_refused() -> None:
    with pytest.raises(DataError, match="size must be one of 28, 64, 128, 224 for pneumoniamnist, got 32"):
        published_files("pneumoniamnist", 32)


def test_an_embedded_set_needs_no_fetching() -> None:
    with pytest.raises(DataError, match="digits has no file to fetch"):
        published_files("digits")


def test_the_chosen_root_comes_before_the_cache(tmp_path: Path) -> None:
    choose_data_root(tmp_path / "chosen")
    assert data_roots() == [tmp_path / "chosen", tmp_path / "cache" / "files"]


def test_without_a_chosen_root_there_is_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAE_DATA_ROOT")
    assert data_roots() == [tmp_path / "cache" / "files"]


def test_without_a_chosen_cache_there_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAE_CACHE")
    assert cache_root() == Path(pooch.os_cache("sae"))


def test_an_own_file_is_also_looked_for_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    path = write_npz(tmp_path / "root" / "own.npz")
    assert find_own("own.npz") == path
