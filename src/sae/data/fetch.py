"""Downloads of published files: checked by their MD5 and resumed after an interruption.

A download grows under a temporary name in its folder. Pooch checks the MD5 and then renames it,
so that a file is either complete or absent.
"""

import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from sae.core.errors import DataError
from sae.data.locations import PublishedFile, data_roots

CHUNK = 1 << 18
"""Bytes read at once."""
TIMEOUT = 30.0
"""Seconds to wait for an answer."""

OnProgress = Callable[[int, int | None], None]
"""Called with the number of bytes so far, and the total if the server sends it."""


def fetch(file: PublishedFile, url: str | None = None, on_progress: OnProgress = lambda *_: None) -> Path:
    """Download a published file to the first data root, unless it is there already.

    Args:
        file: The file.
        url: Another source: a web address, or a file on this machine.
        on_progress: Called as the download proceeds.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")
    folder, source = data_roots()[0] / file.folders[0], url or file.url
    if source.startswith("http://") and file.sha256 is None:
        raise DataError(
            f"{file.name} must come over https, because its SHA-256 is not known and anybody on the way could change "
            f"it, got {source}: give an https address or a file with --url"
        )

    def download(_url: str, output: str | Path, _pooch: object) -> None:
        bring = _download if source.startswith(("http://", "https://")) else _copy
        bring(source, folder / f".{file.name}.part", on_progress)
        (folder / f".{file.name}.part").replace(output)

    try:
        pooch.retrieve(source, f"md5:{file.md5}", fname=file.name, path=folder, downloader=download)
    except ValueError as error:
        raise DataError(
            f"{file.name} must have MD5 {file.md5}, but the file from {source} has another, so it was deleted: "
            f"try again, or another --url"
        ) from error
    except OSError as error:
        raise DataError(f"{folder / file.name} could not be written: {error.strerror or error}") from error
    return folder / file.name


def _copy(source: str, part: Path, on_progress: OnProgress) -> None:
    path = Path(source.removeprefix("file://"))
    if not path.is_file():
        raise DataError(f"--url must be an http(s) address or an existing file, got {source}")
    shutil.copyfile(path, part)
    on_progress(part.stat().st_size, part.stat().st_size)


def _download(url: str, part: Path, on_progress: OnProgress) -> None:
    """Download a file to `part`, continuing an interrupted download."""
    done = part.stat().st_size if part.exists() else 0
    try:
        with _request(url, done) as response:
            is_rest = response.status == 206  # otherwise the server sends the whole file again
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
        if error.code == 416 and done:  # `part` is complete already, or does not belong to this file
            if error.headers.get("Content-Range") == f"bytes */{done}":
                return
            part.unlink()
            _download(url, part, on_progress)
            return
        raise DataError(f"{url} could not be downloaded: the server answered {error.code} {error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(f"{url} could not be downloaded ({reason}): {_advice(part)}") from None
    if total is not None and done < total:
        raise DataError(f"the download of {url} stopped after {done:,} of {total:,} bytes: {_advice(part)}")


def _request(url: str, done: int) -> HTTPResponse:
    headers = {"User-Agent": "sae", **({"Range": f"bytes={done}-"} if done else {})}
    opener = urllib.request.build_opener(SameSchemeRedirects)
    response: HTTPResponse = opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    return response


class SameSchemeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects that keep the scheme or go to https, and no others."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """Return the next request."""
        scheme = urlsplit(newurl).scheme
        if scheme not in (urlsplit(req.full_url).scheme, "https"):
            raise DataError(f"{req.full_url} must not redirect to another scheme, got {newurl}: give another --url")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _advice(part: Path) -> str:
    if part.exists() and part.stat().st_size:
        return "run the same command to continue"
    return "check the network, or give another source with --url"
