import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sae.cli import app
from sae.cli.help import GROUPS
from sae.config.run import TrainConfig
from sae.core.version import __version__

COMMANDS = [command.name for command in app.registered_commands]


def shown(*arguments: str, width: int = 80) -> str:
    result = CliRunner().invoke(app, [*arguments], terminal_width=width)
    assert result.exit_code == 0, result.output
    return result.output


def words(text: str) -> set[str]:
    """All words; one with a hyphen may be broken behind it."""
    return set(re.sub(r"-\n\s*", "-", text).split())


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_the_terminal_and_breaks_no_word(name: str, width: int) -> None:
    text, wide = shown(name, "-h", width=width), shown(name, "--help", width=1000)
    assert all(len(line) <= width for line in text.splitlines())
    assert "…" not in re.sub(r"cuda, …", "", text)
    assert words(text) == words(wide)


def test_options_are_in_groups_with_their_defaults() -> None:
    text = shown("train", "-h")
    places = [text.index(f"{title}:\n") for title in ("Data", "Network", "Training", "Output")]
    assert places == sorted(places)
    told = " ".join(text.split())
    assert f"what suits the data, or {TrainConfig().epochs}" in told
    assert "N, inputs per pass of sae; default: 2" in told
    assert "{" not in re.sub(r"\{choice: .*?\}", "", " ".join(shown("search", "-h").split()))


@pytest.mark.parametrize("name", ["train", "search", "experiment", "pick", "report"])
def test_no_option_of_the_main_commands_is_left_out_of_the_groups(name: str) -> None:
    assert "\nOptions:\n" not in shown(name, "-h")


def test_the_help_of_trials_says_that_they_are_of_each_method() -> None:
    assert "trials of each method, fewer where it has fewer configurations" in " ".join(shown("search", "-h").split())


def test_every_name_of_a_group_is_an_option_of_some_command() -> None:

    known = {
        name
        for command in app.registered_commands
        if command.callback
        for name in inspect.signature(command.callback).parameters
    }
    assert {name for names in GROUPS.values() for name in names} - known <= {"help", "version"}


def test_the_version_is_printed() -> None:
    assert shown("--version") == f"sae {__version__}\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    script = """
        source <(sae --show-completion bash)
        complete_last() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sae_completion sae; echo "${COMPREPLY[*]}"; }
        complete_last sae exp
        complete_last sae export --eval
        complete_last sae data l
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split("\n") == ["export experiment", "--eval-exits", "list", ""]
