"""Users' own tables, and their columns as features.

Medians and categories are learned from the training rows alone.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sae.config.run import DataConfig
from sae.core.errors import ConfigError, DataError
from sae.core.task import Task
from sae.data.cache import roomy
from sae.data.columns import Column, Reading, as_number
from sae.data.dataset import (
    Array,
    ColumnEncoding,
    Dataset,
    Features,
    Indices,
    Known,
    Normalisation,
    signal_normalisation,
    split_up,
    standardisation,
    task_of,
)
from sae.data.defaults import training_share
from sae.data.locations import find_own
from sae.data.profile import (
    MOST_CATEGORIES,
    ColumnProfile,
    check_usable,
    listed_names,
    profile_of,
    warn_of_columns,
    warn_of_identifiers,
    warn_of_marks,
)
from sae.data.splits import Parts, split_groups, split_in_time, split_indices
from sae.data.table_files import column_names, read_columns
from sae.data.targets import (
    check_column,
    check_present,
    check_task,
    label_column,
    number_column,
    ordered_classes,
    read_classes,
)


def read_own(config: DataConfig, _seed: int, known: Known | None = None) -> Dataset:
    """Read the user's table: numbers unchanged, texts one-hot, dates in parts.

    Args:
        config: The path, the task, the target, and the roles of columns.
        known: Encodings and classes that an earlier reading learnt; by default they are learnt here.
    """
    known = known or Known()
    table = split_table(config, known)
    encodings = known.columns or tuple(
        learn_encoding(column, table.parts[0], config.missing) for column in table.chosen.values()
    )
    check_columns(table.chosen, encodings, table.path)
    if known.columns is None:
        warn_of_marks([column for name, column in table.chosen.items() if name not in config.categories], table.path)
        check_usable(table.chosen.values(), table.parts[0], table.path)
        warn_of_identifiers(table.chosen.values(), table.path)
    inputs = encoded(table.chosen, encodings)
    normalisation = standardisation(inputs, table.parts[0])
    if known.columns is None:
        warn_of_columns(inputs, table.parts[0], normalisation, encodings, table.path)
    return table.split_up(config.name, inputs, normalisation, encodings)


def read_own_signals(config: DataConfig, _seed: int, known: Known | None = None) -> Dataset:
    """Read the user's table as signals of one channel: a row is a signal, a column a time step, in file order.

    Args:
        config: The path, the task and the target.
        known: Columns and classes of an earlier reading; by default all columns but the target.
    """
    known = known or Known()
    table = split_table(config, known)
    encodings = known.columns or tuple(
        _time_step(column, table.parts[0], table.path) for column in table.chosen.values()
    )
    check_columns(table.chosen, encodings, table.path)
    signals = encoded(table.chosen, encodings)[:, None]  # (row, 1, length)
    return table.split_up(config.name, signals, signal_normalisation(signals[table.parts[0]]), encodings)


@dataclass(frozen=True)
class SplitTable:
    """A table that was read and split.

    Attributes:
        path: Its file.
        chosen: The columns to predict from.
        targets: Labels or values, (row,).
        task: The task.
        class_names: Names of the classes, if there are any.
        parts: Rows of train, val and test.
        blocks: Numbers of groups, or times, (row,); None if rows are split at random.
        target_names: Names of the targets, if there are several.
    """

    path: Path
    chosen: dict[str, Column]
    targets: Array
    task: Task
    class_names: tuple[str, ...] | None
    parts: Parts
    blocks: Features | None = None
    target_names: tuple[str, ...] | None = None

    def split_up(
        self, name: str, inputs: Array, normalisation: Normalisation, encodings: tuple[ColumnEncoding, ...]
    ) -> Dataset:
        """Make a data set of the encoded inputs."""
        dataset = split_up(
            name, inputs, self.targets, self.task, normalisation, self.parts, self.class_names, encodings, self.blocks
        )
        return dataclasses.replace(dataset, target_names=self.target_names)


def split_table(config: DataConfig, known: Known) -> SplitTable:
    """Read the columns of a table, and split its rows."""
    path = find_own(config.name)
    names = column_names(path)
    _check_names(config, names, path)
    check_task(config)
    columns = read_columns(path, _reading(config, known, names))
    wanted = [columns[name] for name in config.targets]
    for column in wanted:
        check_present(column, path)
    target, class_names = wanted[0], None
    if isinstance(config.target, tuple):
        read_target = label_column if config.task == "classification" else number_column
        targets: Array = np.stack([read_target(column, path) for column in wanted], axis=1)
    elif config.has_classes:
        targets, class_names = read_classes(target, path, known.class_names or ordered_classes(config, target, path))
    else:
        targets = number_column(target, path)
    parts = _split(config, columns, targets.astype(np.int64) if class_names else None, class_names, path)
    where = f"{'column' if len(wanted) == 1 else 'columns'} {listed_names(config.targets)} of {path}"
    task = task_of(config.task, targets[parts[0]], class_names, where)
    left_out = {*config.targets, *config.ignore, *(rule for rule in (config.group, config.time) if rule)}
    chosen = {name: column for name, column in columns.items() if name not in left_out}
    if not chosen:
        raise DataError(f"{path} must hold columns besides {listed_names(sorted(left_out))} to predict from, got none")
    target_names = config.targets if isinstance(config.target, tuple) else None
    return SplitTable(path, chosen, targets, task, class_names, parts, _blocks(config, columns), target_names)


def profile_table(config: DataConfig) -> list[ColumnProfile]:
    """Describe every column of the user's table, and what is done with it; the target need not be known."""
    path = find_own(config.name)
    names = column_names(path)
    for name in (*config.targets, config.group, config.time, *config.ignore, *config.categories, *config.dates):
        if name is not None:
            check_column("every name of a column", name, names, path)
    columns = read_columns(path, _reading(config, Known(), names))
    roles: dict[str | None, str] = {
        **dict.fromkeys(config.targets, "the target"),
        config.group: "the groups",
        config.time: "the time",
    }
    found = []
    for name in names:
        if name not in columns:
            found.append(ColumnProfile(name, "anything", 0, 0, "", "ignored"))
        else:
            profile = profile_of(columns[name])
            found.append(dataclasses.replace(profile, use=roles[name]) if name in roles else profile)
    return found


def _time_step(column: Column, training: Indices, path: Path) -> ColumnEncoding:
    """Return the encoding of a time step; refuse a column that is not a number in every row."""
    if not column.is_numeric or column.is_date:
        raise DataError(
            f"every column but the target must hold numbers, one time step each, got texts in column "
            f"{column.name!r} of {path}: remove it"
        )
    missing = np.flatnonzero(column.missing)
    if missing.size:
        raise DataError(
            f"signals must have no missing values, got one in row {missing[0] + 1}, column {column.name!r} of {path}: "
            f"remove or impute such rows"
        )
    return learn_encoding(column, training)


def reading_of(
    encodings: Sequence[ColumnEncoding], texts: Collection[str] = (), only: Collection[str] | None = None
) -> Reading:
    """Return how to read columns that have encodings: texts, numbers and dates stay what they were.

    Args:
        encodings: The encodings of the columns.
        texts: More columns of texts.
        only: The columns to read; by default all.
    """
    return Reading(
        only=only,
        texts=[*texts, *(encoding.name for encoding in encodings if not encoding.is_numeric)],
        dates=[encoding.name for encoding in encodings if encoding.is_date],
        marks={encoding.name: encoding.missing for encoding in encodings},
    )


def _reading(config: DataConfig, known: Known, names: Sequence[str]) -> Reading:
    """Return how to read the columns of a data set; ignored columns may hold anything."""
    skipped = {*config.ignore} - {*config.targets, config.group, config.time}
    found = reading_of(known.columns) if known.columns else Reading(texts=config.categories, dates=config.dates)
    only = [name for name in names if name not in skipped]
    if config.task in ("classification", "ordinal"):
        return dataclasses.replace(found, only=only, missing=config.missing, unmarked=config.targets)
    marks = {**found.marks, **dict.fromkeys(config.targets if config.task else (), ())}  # also if stored as texts
    return dataclasses.replace(found, only=only, missing=config.missing, marks=marks)


def _split(
    config: DataConfig,
    columns: Mapping[str, Column],
    labels: Indices | None,
    class_names: tuple[str, ...] | None,
    path: Path,
) -> Parts:
    """Split the rows at random, by groups or in time, as the settings say."""
    rule = config.group or config.time
    if rule is None:
        number = len(columns[config.targets[0]].values)
        return split_indices(number, config.split_seed, labels, class_names, path, training_share(number))
    column, where = columns[rule], f"column {rule!r} of {path}"
    check_present(column, path)
    if config.time is None:
        parts = split_groups(column.values, config.split_seed, where)
    elif column.is_numeric:
        parts = split_in_time(column.numbers, where)
    else:
        raise DataError(f"times must be numbers or dates like 2024-01-31, got {column.values[0]!r} in {where}")
    if labels is not None and class_names is not None:
        absent = np.setdiff1d(labels, labels[parts[0]])
        if len(absent):
            raise DataError(
                f"every class must have training rows, but {class_names[absent[0]]!r} of {path} has none after "
                f"splitting by {rule!r}: remove such rows, or try another data.split_seed"
            )
    return parts


def _blocks(config: DataConfig, columns: Mapping[str, Column]) -> Features | None:
    """Return the times of rows, or the numbers of their groups in random order, (row,); None without such a rule."""
    if config.time is not None:
        return columns[config.time].numbers
    if config.group is None:
        return None
    names, group_of = np.unique(columns[config.group].values, return_inverse=True)
    order = np.random.default_rng(config.split_seed).permutation(len(names))
    return order[group_of].astype(np.float64)


def check_columns(columns: Mapping[str, Column], encodings: Sequence[ColumnEncoding], path: Path | str) -> None:
    """Refuse a table without a column that has an encoding, or with texts in a column of numbers."""
    for encoding in encodings:
        if encoding.name not in columns:
            raise DataError(f"{path} must hold the column {encoding.name!r}, got only {', '.join(columns)}")
        column = columns[encoding.name]
        if encoding.is_numeric and not column.is_numeric:
            texts = [value for value in column.values if value is not None]
            wrong = next((text for text in texts if as_number(text) is None), "texts")
            raise DataError(f"column {encoding.name!r} of {path} must hold numbers, got {wrong!r}")
        if encoding.is_date != column.is_date:
            wanted = "dates" if encoding.is_date else "no dates"
            raise DataError(f"column {encoding.name!r} of {path} must hold {wanted}, as in training")


def encoded(columns: dict[str, Column], encodings: Sequence[ColumnEncoding]) -> Features:
    """Return the features of all columns that have an encoding, (row, feature) in float64.

    Each column is taken out of `columns` as it is encoded, so that a large table is not in memory twice.
    """
    num_rows = len(next(iter(columns.values())).values)
    inputs = roomy((num_rows, sum(encoding.num_features for encoding in encodings)))
    index = 0
    for encoding in encodings:
        column = columns.pop(encoding.name)
        for feature in encoding.features(column.values, column.missing):
            inputs[:, index] = feature
            index += 1
    return inputs


def learn_encoding(column: Column, training: Indices, marks: Sequence[str] = ()) -> ColumnEncoding:
    """Return the encoding of a column.

    Numbers become one feature, dates four, with the training median for missing values. Texts become one feature for
    each of the most frequent texts of the training rows. If values are missing, a last feature marks them.

    Args:
        column: The column with all rows.
        training: Indices of the training rows.
        marks: Texts that stand for a missing value in every column.
    """
    missing, marks = column.missing, (*marks, *column.marks)
    present = column.values[training][~missing[training]]
    marks_missing = bool(missing.any())
    if column.is_numeric:
        median = float(np.median(present.astype(np.float64))) if len(present) else 0.0  # then the column is refused
        return ColumnEncoding(column.name, median, marks_missing=marks_missing, is_date=column.is_date, missing=marks)
    counts = Counter(present)
    categories = tuple(sorted(sorted(counts, key=lambda text: (-counts[text], text))[:MOST_CATEGORIES]))
    has_others = len(counts) > MOST_CATEGORIES
    return ColumnEncoding(
        column.name, categories=categories, marks_missing=marks_missing, missing=marks, has_others=has_others
    )


def _check_names(config: DataConfig, columns: Sequence[str], path: Path) -> None:
    """Refuse settings that name a column which the table does not have, or that contradict each other."""
    known = ", ".join(columns)
    if not config.targets:
        raise ConfigError(f"data.target must name the column of {path} to predict: --target COLUMN, one of {known}")
    if config.group and config.time:
        raise ConfigError(f"data.group and data.time are two rules to split, got both for {path}: remove one")
    given = {key: getattr(config, key) for key in ("target", "ignore", "categories", "dates", "group", "time")}
    for key, value in given.items():
        for name in (value,) if isinstance(value, str) else value or ():
            check_column(f"data.{key}", name, columns, path)
            if key != "target" and name in config.targets:
                raise ConfigError(f"data.{key} must not name the target {name!r}: remove it")
    both = set(config.categories) & set(config.dates)
    if both:
        raise ConfigError(f"a column holds categories or dates, got {listed_names(sorted(both))} as both: remove one")
