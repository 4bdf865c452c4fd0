"""A network of the user's own on the command line: its code runs if it is trusted, and has not changed."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner, Result

from sae.cli import app
from sae.core.trust import trust_code
from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from sae.report.commands import train_command

pytestmark = pytest.mark.long

NETWORKS = '''
from pathlib import Path

from torch import nn

Path("was_run").touch()


def make(shape):
    """A small network, for images with any number of channels."""
    layers = []
    for channels, width in ((shape[0], 4), (4, 8), (8, 8)):
        layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(nn.Sequential(*layers), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))


class OnePiece(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(channels, 4, 3), nn.Conv2d(4, 4, 3), nn.Linear(4, 10)

    def forward(self, x):
        x = self.second(nn.functional.dropout(self.first(x), 0.1, self.training))
        return self.last(x.mean((2, 3)))


def make_one_piece(shape):
    return OnePiece(shape[0])


def fail():
    raise ValueError("no luck")


def number():
    return 3
'''
TRAIN = ["train", "--data", "digits", "--backbone", "my_nets.py:make", "--epochs", "1", "--out", "run"]


def sae(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def refusal(*words: str) -> str:
    result = sae(*words)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "my_nets.py").write_text(NETWORKS)
        result = sae(*TRAIN, "--trust-code")
        assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def place(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    (tmp_path / "was_run").unlink()
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    trust_code(is_trusted=False)


@pytest.mark.parametrize(
    "words", [TRAIN, ["evaluate", "run"], ["export", "run", "--out", "m.onnx"]], ids=lambda words: words[0]
)
def test_code_is_not_run_unless_it_is_trusted(place: Path, words: list[str]) -> None:
    assert "my_nets.py is code that would run on this machine: if you trust it, add --trust-code" in refusal(*words)
    assert not (place / "was_run").exists()


def test_it_begins_with_one_input_unless_another_number_is_given(place: Path) -> None:
    config = RunRecord(place / "run").read_config()
    assert config.method.num_inputs == 1
    assert "--inputs" not in train_command(config)
    two = config.model_copy(update={"method": config.method.model_copy(update={"inputs": 2})})
    assert "--inputs 2" in train_command(two)


def test_a_run_records_the_file_and_the_exits_and_can_be_used_again(place: Path) -> None:
    backbone = yaml.safe_load((place / "run/config.yaml").read_text())["backbone"]
    assert backbone["name"] == "my_nets.py:make"
    assert len(backbone["sha256"]) == 64
    assert (backbone["exits"], backbone["depth"]) == (["0.2", "0.5", "0.8"], 3)
    found = sae("evaluate", "run", "--trust-code", "--json")
    assert found.exit_code == 0, found.output
    recorded = json.loads((place / "run/metrics.json").read_text())["test"]
    assert json.loads(found.stdout)["by_exits"][0]["metrics"] == recorded["by_exits"][0]["metrics"]
    assert sae(*TRAIN, "--trust-code").exit_code == 0  # nothing is left to do


def test_the_process_that_measures_memory_may_run_the_code_that_is_trusted(place: Path) -> None:
    words = ["bench", "run", "--batch", "1", "--repeats", "2", "--sessions", "1", "--json"]
    assert "add --trust-code" in refusal(*words)
    assert not (place / "was_run").exists()
    result = sae(*words, "--trust-code")
    assert result.exit_code == 0, result.output


def test_a_changed_file_is_refused(place: Path) -> None:
    (place / "my_nets.py").write_text(NETWORKS + "\n# another line\n")
    assert "my_nets.py is not the file that these settings were made with" in refusal("evaluate", "run", "--trust-code")
    assert not (place / "was_run").exists()
    assert "backbone.sha256" in refusal(*TRAIN, "--trust-code")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("other.py:make", "the file of a network of your own must be readable, got other.py: No such file"),
        (
            "my_nets.py:nothing",
            "my_nets.py must have a function nothing, but it has make, make_one_piece, fail",
        ),
        ("my_nets.py:", "a network of your own is FILE.py:FUNCTION, got my_nets.py:"),
        ("my_nets.py:fail", "my_nets.py:fail must return a network, but it fails: ValueError: no luck"),
        ("my_nets.py:number", "my_nets.py:number must return a torch.nn.Module, got int"),
    ],
)
def test_a_function_that_gives_no_network_is_refused(place: Path, source: str, message: str) -> None:
    words = ("cost", "--input-shape", "1,8,8", "--outputs", "3", "--trust-code")
    assert message in refusal(*words, "--backbone", source)


def test_exits_can_be_named_and_some_left_out(place: Path) -> None:
    exits = ["--set", "backbone.exits=['0.5', '0.8']", "--trust-code", "--force"]
    result = sae(*TRAIN, *exits, "--depth", "1", "--method", "standard")
    assert result.exit_code == 0, result.output
    backbone = yaml.safe_load((place / "run/config.yaml").read_text())["backbone"]
    assert (backbone["exits"], backbone["depth"]) == (["0.5", "0.8"], 1)
    message = refusal(*TRAIN, *exits, "--depth", "3")
    assert message == "error: backbone.depth must be at most the number of exits, 2; got 3"
    assert "method.exits must be in [1, 2], got 3" in refusal(*TRAIN, *exits, "--exits", "3")


def test_pretrained_weights_have_their_own_default_in_the_record(place: Path) -> None:
    words = [word if word != "run" else "kept" for word in TRAIN]
    result = sae(*words, "--set", "backbone.pretrained=true", "--trust-code")
    assert result.exit_code == 0, result.output
    config = yaml.safe_load((place / "kept/config.yaml").read_text())
    assert config["method"]["repeat_fraction"] == {"start": 1.0, "end": 0.5}


def test_what_pretrained_weights_need_goes_before_what_a_small_set_suggests(place: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 16, 16), dtype=np.uint8)
    np.savez(place / "small.npz", images=pixels, labels=np.arange(60) % 3)
    for out, pretrained, expected in (("one", "false", (0.0, 0.0)), ("two", "true", (1.0, 0.5))):
        words = ["--data", "small.npz", "--task", "classification", "--set", f"backbone.pretrained={pretrained}"]
        result = sae("train", *words, "--backbone", "my_nets.py:make", "--epochs", "1", "--out", out, "--trust-code")
        assert result.exit_code == 0, result.output
        fraction = yaml.safe_load((place / out / "config.yaml").read_text())["method"]["repeat_fraction"]
        assert (fraction["start"], fraction["end"]) == expected


def test_a_network_in_one_piece_is_said_to_be(place: Path) -> None:
    words = [{"run": "whole", "my_nets.py:make": "my_nets.py:make_one_piece"}.get(word, word) for word in TRAIN]
    result = sae(*words, "--trust-code")
    assert result.exit_code == 0, result.output
    reason = "outside its submodules its forward differs between training and evaluation"
    assert "warning: my_nets.py:make_one_piece stays in one piece up to its last used exit" in result.stderr
    assert reason in result.stderr
    assert json.loads((place / "whole/network.json").read_text())["uncut"] == reason
    assert f"the network is one piece up to its last used exit: {reason}" in sae("show", "whole").stderr
    message = refusal("export", "whole", "--adaptive", "--out", "m/model.onnx", "--trust-code")
    assert "need a network that can be cut between its exits" in message


@pytest.mark.slow
def test_a_search_tells_its_workers_that_the_code_is_trusted(place: Path) -> None:
    words = ["search", "--data", "digits", "--backbone", "my_nets.py:make", "--epochs", "1", "--trials", "2"]
    message = refusal(*words, "--method", "sae,ensemble", "--workers", "1", "--out", "study")
    assert "add --trust-code" in message
    result = sae(*words, "--method", "sae,ensemble", "--workers", "1", "--out", "study", "--trust-code")
    assert result.exit_code == 0, result.output
    config = StudyRecord.open(place / "study").read_runs()[0].config
    assert config is not None
    command = train_command(config)
    assert "--backbone my_nets.py:make" in command
    assert "--set backbone.sha256=" in command
    assert "--trust-code" in command
    assert sae("show", "study").exit_code == 0
    assert sae("export", "study", "--out", "shipped/model.onnx", "--trust-code").exit_code == 0
    assert sae("report", "study", "--out", "page.html").exit_code == 0
