"""`sae data`: list, describe, draw and fetch data sets, and the cache of decoded ones."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sae.cli import options
from sae.cli.help import Command, Group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL.Image import Image

    from sae.config.settings import Layer
    from sae.data.dataset import Dataset
    from sae.data.overview import Summary
    from sae.data.profile import ColumnProfile
    from sae.data.training_profile import DataProfile

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, describe and fetch data sets, and show what their cache takes.",
)


@app.command("list", cls=Command)
def list_sets(data_root: options.DataRoot = None, json: options.Json = False) -> None:
    """List the data sets of the catalogue and whether they are on this machine."""
    from sae.cli.output import print_json, print_table
    from sae.core.table import text_table
    from sae.data.catalogue import CATALOGUE
    from sae.data.locations import choose_data_root

    choose_data_root(data_root)
    here = {name: entry.is_here for name, entry in CATALOGUE.items()}
    if json:
        print_json({name: {"here": here[name], "summary": entry.summary} for name, entry in CATALOGUE.items()})
        return
    rows = [[name, "yes" if here[name] else "fetch", entry.summary] for name, entry in CATALOGUE.items()]
    print_table(text_table("data sets", ["name", "here", "description"], rows))


@app.command(cls=Command)
@options.spread_groups
def info(
    name: Annotated[str, typer.Argument(help="a name in the catalogue, or the path of your own data")],
    *,
    source: options.DataOptions,
    picture: Annotated[Path | None, typer.Option(help="also draw some images of each class into this PNG file")] = None,
    json: options.Json = False,
) -> None:
    """Show the size, classes and class balance of a data set; of a table its columns, also before a target is named."""
    from sae.cli.output import print_findings, print_json, print_message
    from sae.config.run import DataConfig
    from sae.config.settings import merge, parse
    from sae.core.task import SampleKind
    from sae.data.catalogue import CATALOGUE, find_entry, load
    from sae.data.locations import find_own
    from sae.data.overview import first_of_each_class, sample_grid, summarise
    from sae.data.profiling import profile_data
    from sae.data.table import profile_table

    settings = source.layer(name)
    for layer in options.task_layers([{"data": settings}]):
        settings = merge({"data": settings}, layer)["data"]
    if picture:
        save_picture(sample_grid(*first_of_each_class(load_images(settings))), picture, name)
    config = parse(DataConfig, settings)
    is_table = Path(name).suffix.lower() in options.TABLES and find_entry(name, config.kind).kind is SampleKind.TABLE
    columns = profile_table(config) if is_table else []
    if columns and not json:
        print_columns(name, columns)
    if is_table and config.target is None:
        print_message("name the column to predict with --target COLUMN, to see the classes and the splits, too")
        print_json({"columns": [asdict(item) for item in columns]}) if json else None
        return
    dataset = load(config)
    summary, profile = summarise(dataset), profile_data(dataset, None if name in CATALOGUE else find_own(name))
    if json:
        found = {"profile": profile.model_dump(mode="json"), "findings": profile.findings()}
        print_json({**summary, **({"columns": [asdict(item) for item in columns]} if columns else {}), **found})
        return
    print_summary(summary)
    print_profile(profile)
    print_findings(profile, name)


@app.command(cls=Command)
def corrupt(
    name: Annotated[str, typer.Argument(help="a name in the catalogue, or the path of your own images")],
    picture: Annotated[Path, typer.Option(help="the PNG file to write")],
    index: Annotated[int, typer.Option(min=0, help="number of the image in the test split, from 0")] = 0,
    task: options.Task = None,
    size: options.Size = None,
    data_root: options.DataRoot = None,
) -> None:
    """Draw one image under all 19 corruptions at 5 severities."""
    from sae.cli.output import print_message
    from sae.core.errors import ConfigError
    from sae.data.corruptions import SHIFT_SEED
    from sae.data.locations import choose_data_root
    from sae.data.overview import corruption_grid

    choose_data_root(data_root)
    images = load_images(options.section(name=name, task=task, size=size)).test.inputs
    if index >= len(images):
        raise ConfigError(f"--index must be below {len(images)}, the number of test images, got {index}")
    save_picture(corruption_grid(images[index : index + 1][0], SHIFT_SEED), picture, name)
    print_message(f"the grid is in {picture}")


@app.command(cls=Command)
def fetch(
    name: Annotated[str, typer.Argument(help="a name in the catalogue")],
    size: options.Size = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="download from this address, or copy this file; for several files, the address of their folder"
        ),
    ] = None,
    data_root: options.DataRoot = None,
) -> None:
    """Download a data set; an interrupted download is continued."""
    from sae.cli.output import download_bar, print_message
    from sae.data.catalogue import published_files
    from sae.data.fetch import fetch as fetch_file
    from sae.data.locations import choose_data_root

    choose_data_root(data_root)
    files = published_files(name, size)
    for file in files:
        with download_bar(file.name) as on_progress:
            path = fetch_file(file, url if url is None or len(files) == 1 else f"{url}/{file.name}", on_progress)
    print_message(f"{name} is in {path if len(files) == 1 else path.parent}")


@app.command(cls=Command)
def cache(
    clear: Annotated[
        bool, typer.Option("--clear", help="delete all of it; it is made again when it is needed")
    ] = False,
    json: options.Json = False,
) -> None:
    """Show how much room decoded data sets take on this machine, and delete them if asked to."""
    from datetime import datetime

    from sae.cli.output import print_json, print_line, print_table
    from sae.core.table import text_table
    from sae.data.cache import clear as clear_cache
    from sae.data.cache import entries
    from sae.data.locations import cache_root

    found = entries()
    total = sum(entry.bytes for entry in found)
    if clear:
        clear_cache()
    if json:
        rows = [{"name": one.folder.name, "bytes": one.bytes, "used": round(one.used, 3)} for one in found]
        print_json({"folder": str(cache_root()), "bytes": total, "entries": rows, "cleared": clear})
        return
    if found and not clear:
        times = [datetime.fromtimestamp(one.used).astimezone().isoformat(" ", "minutes")[:16] for one in found]
        lines = [[one.reader, f"{one.bytes / 1e6:,.1f}", time] for one, time in zip(found, times, strict=True)]
        print_table(text_table("decoded data sets", ["reader", "MB", "last used"], lines))
    print_line(f"{'deleted' if clear else 'in all'}: {total / 1e6:,.1f} MB in {cache_root()}")


def print_columns(name: str, columns: "Sequence[ColumnProfile]") -> None:
    """Print a row for each column of a table."""
    from sae.cli.output import print_table
    from sae.core.table import text_table

    rows = [
        [item.name, item.holds, f"{item.missing:,}", f"{item.distinct:,}", item.example, item.use] for item in columns
    ]
    heads = ["column", "holds", "missing", "distinct", "example", "what is done with it"]
    print_table(text_table(f"{name}: {len(columns)} columns", heads, rows))


def print_summary(summary: "Summary") -> None:
    """Print a row for each class, or for each statistic of the targets."""
    from sae.cli.output import print_table
    from sae.core.table import text_table

    splits = summary["splits"]
    rows = [["samples", *(f"{split['samples']:,}" for split in splits.values())]]
    if summary["classes"]:
        for label, title in enumerate(summary["classes"]):
            rows += [[title, *(f"{split['per_class'][label]:,}" for split in splits.values())]]
    else:
        for key in splits["train"]["targets"]:
            title = key if " of " in key else f"{key} of targets"
            rows += [[title, *(f"{split['targets'][key]:.4g}" for split in splits.values())]]
    shape = "×".join(map(str, summary["shape"]))
    title = f"{summary['name']}: {summary['task']}, samples of shape {shape}"
    print_table(text_table(title, ["", *splits], rows))


def print_profile(profile: "DataProfile") -> None:
    """Print the range and the quantiles of each column of numbers, or of each channel, in the training samples."""
    from sae.cli.output import print_table
    from sae.core.table import text_table
    from sae.data.training_profile import SHARES, shown

    ranges = {column.name: column.range for column in profile.columns if column.range is not None}
    dates = {column.name for column in profile.columns if column.holds == "dates"}
    ranges |= {f"channel {index + 1}": channel for index, channel in enumerate(profile.channels)}
    rows = [
        [name, *(shown(value, is_date=name in dates) for value in (found.low, *found.quantiles, found.high))]
        for name, found in ranges.items()
    ]
    if rows:
        what = "column" if profile.columns else "channel (quantiles of means)"
        heads = [what, "lowest", *(f"{share:.0%}" for share in SHARES), "highest"]
        print_table(text_table(f"the {profile.rows:,} training samples", heads, rows))


def load_images(settings: "Layer") -> "Dataset":
    """Load a data set of images; refuse tables and signals, which have no image to draw."""
    from sae.config.run import DataConfig
    from sae.config.settings import parse
    from sae.core.errors import ConfigError
    from sae.core.task import SampleKind
    from sae.data.catalogue import load

    dataset = load(parse(DataConfig, settings))
    kind = dataset.spec.kind
    if kind is not SampleKind.IMAGES:
        raise ConfigError(f"--picture needs a data set of images, but {dataset.name} is {kind.phrase}")
    return dataset


def save_picture(image: "Image", path: Path, name: str) -> None:
    """Write a picture of the data of this name to a file, which must not be one of them."""
    from sae.core.errors import ConfigError, RecordError
    from sae.data.image_list import own_files
    from sae.records.targets import write_target

    try:
        write_target(
            path, lambda temporary: image.save(temporary, format=_format_of(path)), "--picture", own_files(name)
        )
    except (ValueError, RecordError) as error:
        raise ConfigError(f"--picture must name an image file that can be written, got {path}: {error}") from None


def _format_of(path: Path) -> str:
    """Return what an image file holds, by its ending."""
    from PIL import Image

    known = Image.registered_extensions()
    if path.suffix.lower() not in known:
        raise ValueError(f"unknown file extension: {path.suffix}")
    return known[path.suffix.lower()]
