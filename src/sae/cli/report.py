"""`sae report`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sae.cli import options
from sae.core.collection import paused_collection

if TYPE_CHECKING:
    from sae.records.run import RunRecord
    from sae.records.study import StudyRecord


@paused_collection()
def report(
    folders: Annotated[list[Path], typer.Argument(help="folders of studies, or of runs to compare")],
    out: Annotated[Path, typer.Option(help="file of the page, ending in .html")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="folder for each figure as .svg and .png")] = None,
    style: Annotated[
        Literal["screen", "paper"],
        typer.Option(
            help="marks in --figures: screen, as on the page (distinct even when small), or those of the paper"
        ),
    ] = "screen",
    tables: Annotated[Path | None, typer.Option(help="folder for each table as .md, .csv and .tex")] = None,
    title: Annotated[str | None, typer.Option(help="title of the page; by default it names the data")] = None,
    tolerance: options.Tolerance = None,
    json: options.Json = False,
) -> None:
    """Write one page about studies or runs: recommendation, receipt, figures and tables."""
    from sae.core.errors import require

    require("altair", "this command")
    from sae.cli.output import print_json, print_line, print_text
    from sae.report.build import report_of
    from sae.report.files import write_drawings, write_figures, write_tables
    from sae.report.page import write_page

    studies, runs = open_folders(folders)
    check_page(out)
    for flag, folder in (("--figures", figures), ("--tables", tables)):
        make_folder(flag, folder)
    built = report_of(studies, runs, title, tolerance)
    write_page(built, out)
    drawn = [*write_figures(built.figures(), figures, style)] if figures else []
    drawn += write_drawings(built.drawings(), figures) if figures else []
    written = write_tables(built.tables(), tables) if tables else []
    if json:
        files = {"figures": [str(path) for path in drawn], "tables": [str(path) for path in written]}
        print_json({"report": str(out), "recommendation": built.lead.sentence, **files})
        return
    print_text(built.lead.sentence)
    print_line(f"report:  {out}")
    for name, paths in (("figures", drawn), ("tables", written)):
        if paths:
            print_line(f"{name + ':':8} {len(paths)} files in {paths[0].parent}")


def check_page(out: Path) -> None:
    """Refuse a path that cannot become a page."""
    from sae.core.errors import ConfigError
    from sae.records.targets import check_target

    if out.suffix != ".html" or out.is_dir():
        raise ConfigError(f"--out must name a file that ends in .html, got {out}")
    if not Path(os.path.realpath(out)).parent.is_dir():
        raise ConfigError(f"the folder of --out must exist, got {out}: create {out.parent} first")
    check_target(out)


def make_folder(flag: str, folder: Path | None) -> None:
    """Create a folder for files, if one is given, before any work starts."""
    from sae.core.errors import ConfigError

    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{flag} must name a folder that can be written to, got {folder}: {error.strerror}") from None


def check_installed(run: "RunRecord") -> None:
    """Refuse a run of a method or backbone that is not installed; the report itself tells of damaged runs."""
    from sae.core.errors import MissingPluginError, RecordError

    try:
        run.read_config()
    except MissingPluginError:
        raise
    except RecordError:
        pass


def open_folders(folders: Sequence[Path]) -> "tuple[list[StudyRecord], list[RunRecord]]":
    """Open folders as studies or runs, by the config file in them; refuse anything else."""
    from sae.core.errors import RecordError
    from sae.records.run import RunRecord
    from sae.records.study import StudyRecord

    studies, runs = [], []
    for folder in folders:
        if (folder / StudyRecord.CONFIG).exists():
            studies.append(StudyRecord.open(folder))
        elif (folder / RunRecord.CONFIG).exists():
            runs.append(RunRecord(folder))
            check_installed(runs[-1])
        else:
            raise RecordError(
                f"{folder} is not a study or run folder: it has no {StudyRecord.CONFIG} and no {RunRecord.CONFIG}; "
                f"`sae runs {folder}` lists the runs below it"
            )
    return studies, runs
