"""Whether the files of a run, a study or a shipped model are those that were written: by recorded hashes. No torch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sae.core.errors import ModelError, RecordError
from sae.core.wording import count
from sae.deploy.manifest import NAME, read_manifest
from sae.records.run import RunRecord
from sae.records.shipped import CARD, RECEIPT, is_shipped
from sae.records.study import StudyRecord

MOST_NAMED = 5
"""Changed files that are named in a sentence."""


@dataclass(frozen=True)
class Checked:
    """What a file is, compared with the hash that was recorded of it."""

    file: Path
    state: Literal["agrees", "changed", "missing", "not recorded"]

    @property
    def is_wrong(self) -> bool:
        """Whether the folder does not hold what was written."""
        return self.state in ("changed", "missing")


def verify(folder: Path) -> list[Checked]:
    """Compare the files of a run, a study or a shipped model with their recorded hashes."""
    if (folder / StudyRecord.CONFIG).exists():
        return list(_study(folder))
    if (folder / RunRecord.CONFIG).exists():
        return list(_run(RunRecord.open(folder)))
    if is_shipped(folder):
        return list(_model(folder))
    raise RecordError(
        f"{folder} must be the folder of a run, a study or a shipped model: it has no {RunRecord.CONFIG}, "
        f"{StudyRecord.CONFIG} or {NAME} of ours"
    )


def summary(folder: Path, checked: list[Checked]) -> str:
    """Return in one sentence what agrees and what has no recorded hash, or what was changed."""
    wrong = [f"{item.file} is {item.state}" if item.state == "missing" else f"{item.file} was changed"
             for item in checked if item.is_wrong]  # fmt: skip
    if wrong:
        more = f", and {len(wrong) - MOST_NAMED} more" if len(wrong) > MOST_NAMED else ""
        return f"{'; '.join(wrong[:MOST_NAMED])}{more}: bring the file back, or make the results again"
    agreeing = sum(item.state == "agrees" for item in checked)
    unknown = sorted({item.file.name for item in checked if item.state == "not recorded"})
    rest = f"; not recorded: {', '.join(unknown)}" if unknown else ""
    return f"{folder}: {count(agreeing, 'file')} as recorded{rest}"


def _study(folder: Path) -> Iterator[Checked]:
    record = StudyRecord.open(folder)
    places = (record.path / place for place in (record.TRIALS, record.CONFIRM, record.DISTILLED))
    for status in sorted(path for place in places for path in place.rglob(RunRecord.STATUS)):
        yield from _run(RunRecord(status.parent))
    if is_shipped(record.path / record.SHIPPED):
        yield from _model(record.path / record.SHIPPED)
    yield from (Checked(record.path / name, "not recorded") for name in (record.CONFIG, record.CONFIRMED)
                if record.has(name))  # fmt: skip


def _run(record: RunRecord) -> Iterator[Checked]:
    recorded = record.recorded_hashes()
    for name in (*record.FILES, *record.SHIFT.values()):
        if name in recorded or (record.has(name) and name != record.STATUS):
            yield _compared(record, name, recorded)


def _compared(record: RunRecord, name: str, recorded: Mapping[str, str]) -> Checked:
    found = record.hash_of(name)
    if name not in recorded:
        return Checked(record.path / name, "not recorded")
    return Checked(
        record.path / name, "missing" if found is None else "agrees" if found == recorded[name] else "changed"
    )


def _model(folder: Path) -> Iterator[Checked]:
    manifest = read_manifest(folder / NAME)
    for part in (manifest.graph, *(manifest.adaptive.stages if manifest.adaptive else ())):
        path = folder / part.file
        try:
            part.read(path)
        except ModelError:
            yield Checked(path, "changed" if path.exists() else "missing")
        else:
            yield Checked(path, "agrees")
    yield from (Checked(folder / name, "not recorded") for name in (NAME, RECEIPT, CARD) if (folder / name).exists())
