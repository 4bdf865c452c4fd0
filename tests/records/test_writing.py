"""Files are written without destroying what stands in their place.

No test names a real device: links to them would be followed by mistake, too. Pipes and links in a temporary folder
show the same.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sae.core.errors import ConfigError, RecordError
from sae.records.run import RunRecord
from sae.records.shipped import marked_card
from sae.records.study import StudyRecord
from sae.records.targets import check_target, write_target
from sae.records.writing import write_whole

PRINTING = """
import sys
from pathlib import Path
from sae.records.writing import write_whole
print("before", flush=True)
write_whole(Path(sys.argv[1]), lambda path: path.write_text("content\\n"))
print("after", flush=True)
"""


def saying(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text, encoding="utf-8")


def test_a_pipe_stays_a_pipe_and_gets_the_content(tmp_path: Path) -> None:
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    write_target(pipe, saying("a,b\n1,2\n"))
    reader.join(10)
    assert received == ["a,b\n1,2\n"]
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_link_stays_a_link_and_its_target_gets_the_content(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "table.csv", tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)
    write_target(link, saying("new"))
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["table.csv"]


def test_a_link_to_nothing_makes_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "table.csv", tmp_path / "link.csv"
    link.symlink_to(target)
    write_target(link, saying("new"))
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to(link)
    with pytest.raises(RecordError, match=r"link\.csv could not be written"):
        write_target(link, saying("new"))
    assert link.is_symlink()


@pytest.mark.parametrize("is_file", [False, True])
def test_what_standard_output_goes_to_is_printed_to_in_order(tmp_path: Path, *, is_file: bool) -> None:
    link, printed = tmp_path / "out.csv", tmp_path / "printed"
    link.symlink_to("/proc/self/fd/1")
    command = [sys.executable, "-c", PRINTING, str(link)]
    if is_file:
        with printed.open("w") as file:
            subprocess.run(command, stdout=file, check=True, timeout=60)
        found = printed.read_text()
    else:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert found == "before\ncontent\nafter\n"
    assert link.is_symlink()


def test_a_name_as_long_as_the_file_system_allows_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 251 + ".csv")
    write_whole(path, saying("content"))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A folder with a run, a study and a shipped model."""
    for folder, config, mark in (("run", "config.yaml", RunRecord.MARK), ("study", "study.yaml", StudyRecord.MARK)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / config).write_text(f"{mark}\n")
    (tmp_path / "ship").mkdir()
    (tmp_path / "ship" / "manifest.json").write_text('{"format": "sae-model"}')
    (tmp_path / "ship" / "README.md").write_text(marked_card("# A model"))
    return tmp_path


def test_files_of_ours_are_no_targets(ours: Path) -> None:
    for name, owner in (
        ("run/config.yaml", "the run"),
        ("run/metrics.json", "the run"),
        ("run/shift-val.json", "the run"),
        ("run/.lock", "the run"),
        ("study/optuna.db", "the study"),
        ("ship/manifest.json", "the model"),
        ("ship/model.onnx", "the model"),
        ("ship/README.md", "the model"),
    ):
        with pytest.raises(ConfigError, match=f"--csv must not replace a file of {owner} in .*, got .*{name}"):
            check_target(ours / name, "--csv")
    for name in ("run/front.csv", "study/report.html", "ship/predictions.csv", "config.yaml"):
        check_target(ours / name)
    (ours / "ship" / "README.md").write_text("# My project")
    check_target(ours / "ship" / "README.md")


def test_files_of_ours_are_no_targets_of_links_either(ours: Path) -> None:
    (ours / "link.csv").symlink_to("ship/manifest.json")
    (ours / "link-to-link.csv").symlink_to("link.csv")
    for name in ("link.csv", "link-to-link.csv"):
        with pytest.raises(ConfigError, match=f"--out must not replace a file of the model in .*, got .*{name}"):
            write_target(ours / name, saying("a,b"))
    assert (ours / "ship" / "manifest.json").read_text() == '{"format": "sae-model"}'


def test_a_file_of_ours_that_was_moved_behind_a_link_is_no_target(ours: Path) -> None:
    (ours / "run" / "config.yaml").rename(ours / "moved.yaml")
    (ours / "run" / "config.yaml").symlink_to("../moved.yaml")
    with pytest.raises(ConfigError, match="must not replace a file of the run"):
        check_target(ours / "run" / "config.yaml")
