"""Where an exported model goes: a folder that holds one model, and nothing else is overwritten in silence."""

from pathlib import Path

from sae.deploy.manifest import NAME, Manifest, RunPart, read_manifest, sha256_of
from sae.errors import ConfigError, ModelError
from sae.folder import write_whole


def already_there(out: Path, run: RunPart, eval_exits: int, *, force: bool, int8: bool = False) -> Manifest | None:
    """The manifest of this very model if it is at `out` already; something else there is refused.

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
        raise ModelError(
            f"a folder holds one model, however {out.parent} holds {manifest.graph.file} already: name another "
            f"folder for {out.name}, or replace what describes the other with --force"
        )
    is_same = manifest.run == run and manifest.network.eval_exits == eval_exits
    if is_same and (manifest.quantisation is not None) == int8 and _is_whole(out, manifest):
        return manifest
    bits = "int8" if manifest.quantisation else "float32"
    raise ModelError(
        f"{out} is there already, of another run or another number of exits or bits ({manifest.network.method}, "
        f"{manifest.network.eval_exits} exits, {bits}): name another folder, or start over with --force"
    )


def write_model(out: Path, content: bytes, manifest: Manifest) -> None:
    """The graph, then the manifest that belongs to it: a graph alone is noticed when it is loaded."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"the folder of {out} must be writable, however it is not: {error.strerror}") from None
    write_whole(out, lambda temporary: temporary.write_bytes(content))
    write_whole(out.parent / NAME, lambda temporary: temporary.write_text(manifest.to_json(), encoding="utf-8"))


def _is_whole(out: Path, manifest: Manifest) -> bool:
    return out.is_file() and sha256_of(out.read_bytes()) == manifest.graph.sha256
