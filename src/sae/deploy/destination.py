"""Where an exported model goes: a folder that holds one model, and nothing else is overwritten in silence."""

from collections.abc import Sequence
from pathlib import Path

from sae.core.errors import ConfigError, ModelError, OtherModelError
from sae.deploy.exit_rule import ExitTarget
from sae.deploy.manifest import NAME, Manifest, RunPart, read_manifest, sha256_of
from sae.records.folder import write_whole


def already_there(
    out: Path,
    run: RunPart,
    eval_exits: int,
    target: ExitTarget | None = None,
    *,
    force: bool,
    int8: bool = False,
) -> Manifest | None:
    """The manifest of this very model if it is at `out` already; something else there is refused.

    The same model without the stages that are asked for, or with stages for another target, is
    none: it is written again, with them.
    `force` makes room for another model, but never for a file that we did not write.
    """
    if out.suffix != ".onnx" or out.is_dir():
        raise ConfigError(f"--out must name a file that ends in .onnx, got {out}")
    manifest_path = out.parent / NAME
    if not manifest_path.exists():
        if out.exists() and not force:
            raise ModelError(f"{out} is there already, and no {NAME} says what it is: name another, or use --force")
        return None
    try:
        manifest = read_manifest(manifest_path)
    except ModelError as error:
        raise ModelError(f"a folder holds one model and its {NAME}: name another folder for {out}; {error}") from None
    if force:
        return None
    if manifest.graph.file != out.name:
        raise OtherModelError(
            f"a folder holds one model, however {out.parent} holds {manifest.graph.file} already: name another "
            f"folder for {out.name}, or replace what describes the other with --force"
        )
    is_same = manifest.run == run and manifest.network.eval_exits == eval_exits
    if is_same and (manifest.quantisation is not None) == int8 and _is_whole(out, manifest):
        return manifest if target is None or _has_stages(out, manifest, target) else None
    bits = "int8" if manifest.quantisation else "float32"
    raise OtherModelError(
        f"{out} is there already, of another run or another number of exits or bits ({manifest.network.method}, "
        f"{manifest.network.eval_exits} exits, {bits}): name another folder, or start over with --force"
    )


def write_model(out: Path, content: bytes, manifest: Manifest, stages: Sequence[bytes] = ()) -> None:
    """The stages and the graph, then the manifest that belongs to them: files alone are noticed when they are loaded.

    Stages of the model that is replaced go, where they are not written anew.
    """
    parts = manifest.adaptive.stages if manifest.adaptive else ()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"the folder of {out} must be writable, however it is not: {error.strerror}") from None
    outdated = _stage_files(out.parent) - {part.file for part in parts}
    for part, stage in zip(parts, stages, strict=True):
        write_whole(out.with_name(part.file), lambda temporary, stage=stage: temporary.write_bytes(stage))  # type: ignore[misc]
    write_whole(out, lambda temporary: temporary.write_bytes(content))
    write_whole(out.parent / NAME, lambda temporary: temporary.write_text(manifest.to_json(), encoding="utf-8"))
    for name in outdated:
        out.with_name(name).unlink(missing_ok=True)


def _stage_files(folder: Path) -> set[str]:
    """The stages of the model that is there."""
    try:
        adaptive = read_manifest(folder / NAME).adaptive
    except ModelError:
        return set()
    return {part.file for part in adaptive.stages} if adaptive else set()


def _has_stages(out: Path, manifest: Manifest, target: ExitTarget) -> bool:
    adaptive = manifest.adaptive
    return (
        adaptive is not None
        and adaptive.target == target
        and all(
            out.with_name(part.file).is_file() and sha256_of(out.with_name(part.file).read_bytes()) == part.sha256
            for part in adaptive.stages
        )
    )


def _is_whole(out: Path, manifest: Manifest) -> bool:
    return out.is_file() and sha256_of(out.read_bytes()) == manifest.graph.sha256
