"""`sae report`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sae.cli import options

if TYPE_CHECKING:
    from sae.records.run import RunRecord
    from sae.records.study import StudyRecord


def report(
    folders: Annotated[list[Path], typer.Argument(help="folders of studies, or of runs to set side by side")],
    out: Annotated[Path, typer.Option(help="the page, one .html file")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="also write each figure as .svg and .png to this folder")] = None,
    tables: Annotated[Path | None, typer.Option(help="also write each table as .md, .csv and .tex")] = None,
    title: Annotated[str | None, typer.Option(help="of the page; by default what it is about")] = None,
    json: options.Json = False,
) -> None:
    """One page with what studies or runs came to: recommendation, receipt, figures and tables."""
    from sae.cli.output import print_json, print_line
    from sae.report.build import report_of
    from sae.report.figure_files import write_figures
    from sae.report.page import write_page
    from sae.report.table_files import write_tables

    studies, runs = open_folders(folders)
    check_page(out)
    for flag, folder in (("--figures", figures), ("--tables", tables)):
        make_folder(flag, folder)
    built = report_of(studies, runs, title)
    write_page(built, out)
    drawn = write_figures(built.figures(), figures) if figures else []
    written = write_tables(built.tables(), tables) if tables else []
    if json:
        files = {"figures": [str(path) for path in drawn], "tables": [str(path) for path in written]}
        print_json({"report": str(out), "recommendation": built.lead.sentence, **files})
        return
    print_line(built.lead.sentence)
    print_line(f"report:  {out}")
    for name, paths in (("figures", drawn), ("tables", written)):
        if paths:
            print_line(f"{name + ':':8} {len(paths)} files in {paths[0].parent}")


def check_page(out: Path) -> None:
    """Only a page goes there, and not over a folder."""
    from sae.core.errors import ConfigError

    if out.suffix != ".html" or out.is_dir():
        raise ConfigError(f"--out must name a file that ends in .html, got {out}")
    if not out.resolve().parent.is_dir():
        raise ConfigError(f"the folder of --out must be there, however {out.parent} is not: make it first")


def make_folder(flag: str, folder: Path | None) -> None:
    """Where files go, if anywhere: made before any work, or refused."""
    from sae.core.errors import ConfigError

    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{flag} must name a folder that can be written to, however {folder} is not one: {error.strerror}"
        ) from None


def open_folders(folders: Sequence[Path]) -> "tuple[list[StudyRecord], list[RunRecord]]":
    """Studies and runs, told apart by their config; anything else is refused."""
    from sae.core.errors import RecordError
    from sae.records.run import RunRecord
    from sae.records.study import StudyRecord

    studies, runs = [], []
    for folder in folders:
        if (folder / StudyRecord.CONFIG).exists():
            studies.append(StudyRecord.open(folder))
        elif (folder / RunRecord.CONFIG).exists():
            runs.append(RunRecord(folder))
        else:
            raise RecordError(
                f"a report is of study or run folders, which hold a {StudyRecord.CONFIG} or a {RunRecord.CONFIG}, "
                f"however {folder} has neither: `sae runs {folder}` lists the runs below it"
            )
    return studies, runs
