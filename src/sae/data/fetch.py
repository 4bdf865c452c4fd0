"""Downloads of published files: checked, resumed where they broke off, whole or not there.

A download grows under a temporary name beside its place. Pooch checks the sum and moves it
there.
"""

import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from sae.core.errors import DataError
from sae.data.locations import PublishedFile, data_roots

CHUNK = 1 << 18
TIMEOUT = 30.0
"""Seconds without an answer."""

OnProgress = Callable[[int, int | None], None]
"""Told how many bytes are there, and of how many, if the server says so."""


def fetch(file: PublishedFile, url: str | None = None, on_progress: OnProgress = lambda *_: None) -> Path:
    """Bring a published file to the first data root, if it is not there already.

    Args:
        file: What to bring.
        url: Another place to bring it from: an address, or a file on this machine.
        on_progress: Told how far a download has come.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")
    folder, source = data_roots()[0], url or file.url

    def download(_url: str, output: Any, _pooch: object) -> None:
        bring = _download if source.startswith(("http://", "https://")) else _copy
        bring(source, folder / f".{file.name}.part", on_progress)
        (folder / f".{file.name}.part").replace(output)

    try:
        pooch.retrieve(source, f"md5:{file.md5}", fname=file.name, path=folder, downloader=download)
    except ValueError as error:
        raise DataError(
            f"{file.name} must have MD5 {file.md5}, however what came from {source} has another: "
            f"nothing was kept; try again, or another --url"
        ) from error
    except OSError as error:
        raise DataError(f"{folder / file.name} could not be written: {error.strerror or error}") from error
    return folder / file.name


def _copy(source: str, part: Path, on_progress: OnProgress) -> None:
    path = Path(source.removeprefix("file://"))
    if not path.is_file():
        raise DataError(f"--url must be an http(s) address or a file that exists, got {source}")
    shutil.copyfile(path, part)
    on_progress(part.stat().st_size, part.stat().st_size)


def _download(url: str, part: Path, on_progress: OnProgress) -> None:
    """Bring a file to `part`, going on where an earlier download broke off."""
    done = part.stat().st_size if part.exists() else 0
    try:
        with _request(url, done) as response:
            is_rest = response.status == 206  # else the server sends the whole again
            done = done if is_rest else 0
            length = response.headers.get("Content-Length")
            total = None if length is None else done + int(length)
            with part.open("ab" if is_rest else "wb") as target:
                while chunk := response.read(CHUNK):
                    target.write(chunk)
                    done += len(chunk)
                    on_progress(done, total)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and done:  # what is there is not the beginning of what the server has, or all of it
            if error.headers.get("Content-Range") == f"bytes */{done}":
                return
            part.unlink()
            _download(url, part, on_progress)
            return
        raise DataError(
            f"{url} must be a file to download, however the server answered {error.code} {error.reason}"
        ) from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(f"{url} could not be downloaded ({reason}): {_what_is_left(part)}") from None
    if total is not None and done < total:
        raise DataError(f"{url} broke off after {done:,} of {total:,} bytes: {_what_is_left(part)}")


def _request(url: str, done: int) -> HTTPResponse:
    headers = {"User-Agent": "sae", **({"Range": f"bytes={done}-"} if done else {})}
    response: HTTPResponse = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    return response


def _what_is_left(part: Path) -> str:
    if part.exists() and part.stat().st_size:
        return "the same command goes on from there"
    return "check the network, or name another place with --url"
