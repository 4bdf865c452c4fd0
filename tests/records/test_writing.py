"""Files are written without destroying what stands in their place.

No test names a real device: links to them would be followed by mistake, too. Pipes and links in a temporary folder
show the same.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sae.core.errors import BusyError, ConfigError, RecordError
from sae.records.run import RunRecord
from sae.records.shipped import marked_card
from sae.records.study import StudyRecord
from sae.records.targets import check_target, write_target
from sae.records.writing import temporaries, write_whole

PRINTING = """
import sys
from pathlib import Path
from sae.records.writing import write_whole
print("before", flush=True)
write_whole(Path(sys.argv[1]), lambda path: path.write_text("content\\n"))
print("after", flush=True)
"""

WRITING = """
import sys, time
from pathlib import Path
from sae.records.writing import write_whole
def write(path):
    path.write_text("from the first process")
    print("writing", flush=True)
    sys.stdin.readline()
write_whole(Path(sys.argv[1]), write)
"""
"""Writes a file until a line comes in."""


@contextmanager
def writer(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start another process that is writing a file, and wait until it is."""
    command = [sys.executable, "-c", WRITING, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        try:
            yield process
        finally:
            process.kill()


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


def test_a_file_that_another_process_writes_is_refused_and_holds_what_that_one_wrote(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    with writer(path) as other:
        with pytest.raises(BusyError, match=r"p\.csv is being written by another process"):
            write_target(path, saying("from the second process"))
        write_whole(tmp_path / "q.csv", saying("another file"))
        other.communicate("\n", timeout=60)
    assert path.read_text() == "from the first process"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["p.csv", "q.csv"]


def test_many_processes_that_write_one_file_leave_one_whole_text_of_one_that_succeeded(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    program = PRINTING.replace('"content\\n"', "sys.argv[2] * 3_000_000")
    started = [subprocess.Popen([sys.executable, "-c", program, str(path), str(i)], stderr=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL) for i in range(4)]  # fmt: skip
    succeeded = [str(i) for i, process in enumerate(started) if process.wait(60) == 0]
    text = path.read_text()
    assert text[0] in succeeded
    assert text == text[0] * 3_000_000
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.csv"]


def test_what_a_killed_process_left_is_deleted_by_the_next_that_writes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    with writer(path) as other:
        other.kill()
        other.wait()
        assert len(temporaries(path)) == 1
        write_whole(path, saying("new"))
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.csv"]


def test_files_with_names_like_a_temporary_one_are_left_alone(tmp_path: Path) -> None:
    """Earlier versions wrote to `.p.csv.tmp`: through a link, over a file, and into a pipe that nobody reads."""
    (tmp_path / "precious").write_text("mine")
    mine = tmp_path / ".p.csv.sae-0123456789abcdef.tmp"
    mine.symlink_to("precious")
    for name, make in (
        ("p.csv", os.mkfifo),
        ("q.csv", lambda path: path.symlink_to("precious")),
        ("r.csv", Path.touch),
    ):
        make(tmp_path / f".{name}.tmp")
        before = (tmp_path / f".{name}.tmp").lstat()
        write_whole(tmp_path / name, saying("new"))
        assert (tmp_path / f".{name}.tmp").lstat() == before
    assert (tmp_path / "precious").read_text() == "mine"
    assert mine.is_symlink()


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


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"out\.csv could not be written: create its folder .*absent first"):
        write_whole(tmp_path / "absent" / "out.csv", lambda path: path.write_text("x"))
