"""The folder of one shipped model: whether it is there already, and writing it."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from sae.core.errors import ModelError, OtherModelError
from sae.core.reading import read_file
from sae.deploy.manifest import NAME, ExitTarget, Manifest, RunPart, check_model_path, read_manifest, sha256_of
from sae.records.writing import write_whole, writing_alone

_OURS: ContextVar[frozenset[Path]] = ContextVar("folders that this thread exports into", default=frozenset())


@contextmanager
def alone_in_folder(out: Path) -> Iterator[None]:
    """Keep other exports out of the folder of a model. It is made if it is missing, and stays if it holds something."""
    folder = out.parent.resolve()
    if folder in _OURS.get():
        yield
        return
    made = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    with ExitStack() as stack:
        try:
            for parent in reversed(made):
                parent.mkdir(exist_ok=True)
                stack.callback(_remove_if_empty, parent)
            stack.enter_context(writing_alone(folder / "model", called=out))
        except OSError as error:
            raise ModelError(f"the folder of {out} must be writable: {error.strerror or error}") from None
        stack.callback(_OURS.reset, _OURS.set(_OURS.get() | {folder}))
        yield


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def find_model(
    out: Path,
    run: RunPart,
    eval_exits: int,
    target: ExitTarget | None = None,
    *,
    force: bool,
    int8: bool = False,
    calibrate: bool = False,
) -> Manifest | None:
    """Return the manifest if `out` already holds this same model. Refuse another model there.

    If segments are asked for, but are missing or meet another target, the model must be written
    again. `force` allows replacing another model, but never a file that we did not write.
    """
    check_model_path(out)
    manifest_path = out.parent / NAME
    if not manifest_path.exists():
        if out.exists() and not force:
            raise ModelError(f"{out} exists without a {NAME} to describe it: name another file, or use --force")
        return None
    try:
        manifest = read_manifest(manifest_path)
    except ModelError as error:
        raise ModelError(f"a folder holds one model and its {NAME}: name another folder for {out} ({error})") from None
    if force:
        return None
    if manifest.graph.file != out.name:
        raise OtherModelError(
            f"a folder holds one model, and {out.parent} already holds {manifest.graph.file}: name another folder for "
            f"{out.name}, or replace the other model with --force"
        )
    is_same = manifest.run == run and manifest.network.eval_exits == eval_exits
    if not out.exists():
        return None  # an earlier command was killed between the manifest and the graph: this one finishes its work
    is_same = is_same and (manifest.calibration is not None) == calibrate
    if is_same and (manifest.quantisation is not None) == int8 and _has_content(out, manifest.graph.sha256):
        return manifest if target is None or _has_segments(out, manifest, target) else None
    bits = ("int8" if manifest.quantisation else "float32") + (", calibrated" if manifest.calibration else "")
    bits += ", trained again with the validation samples" if manifest.refit else ""
    raise OtherModelError(
        f"{out} already holds a model of another run, number of exits, precision or calibration "
        f"({manifest.network.method}, {manifest.network.eval_exits} exits, {bits}): name another folder, "
        "or replace it with --force (in Python, force=True)"
    )


def write_model(out: Path, content: bytes, manifest: Manifest, segments: Sequence[bytes] = ()) -> None:
    """Write the manifest, then the segments and the graph that it describes, and remove outdated segments.

    The manifest comes first and holds the hashes of the other files: after a kill, loading refuses files that do not
    match it, and the same command recognises its own work and finishes it.
    """
    parts = manifest.adaptive.stages if manifest.adaptive else ()
    outdated = _segment_files(out.parent) - {part.file for part in parts}
    files = {part.file: segment for part, segment in zip(parts, segments, strict=True)}
    for name, data in {NAME: manifest.to_json().encode("utf-8"), **files, out.name: content}.items():
        write_whole(out.with_name(name), lambda temporary, data=data: temporary.write_bytes(data))  # type: ignore[misc]
    for name in outdated:
        out.with_name(name).unlink(missing_ok=True)


def _segment_files(folder: Path) -> set[str]:
    """Return the segment files of the model in a folder."""
    try:
        adaptive = read_manifest(folder / NAME).adaptive
    except ModelError:
        return set()
    return {part.file for part in adaptive.stages} if adaptive else set()


def _has_segments(out: Path, manifest: Manifest, target: ExitTarget) -> bool:
    part = manifest.adaptive
    if part is None or part.target != target:
        return False
    return all(_has_content(out.with_name(segment.file), segment.sha256) for segment in part.stages)


def _has_content(path: Path, sha256: str) -> bool:
    return path.is_file() and sha256_of(read_file(str(path))) == sha256
