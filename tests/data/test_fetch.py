import hashlib
import io
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sae.core.errors import DataError
from sae.data.fetch import SameSchemeRedirects, fetch
from sae.data.locations import PublishedFile
from tests.data.samples import md5_of

CONTENT = bytes(range(256)) * 4000


class Handler(BaseHTTPRequestHandler):
    """Serves `CONTENT`; can break off, refuse ranges, or have nothing."""

    def do_GET(self) -> None:
        server: Any = self.server
        asked = self.headers.get("Range")
        server.ranges.append(asked)
        if self.path == "/elsewhere.npz":
            self.send_response(302)
            self.send_header("Location", server.location)
            self.end_headers()
            return
        if self.path != "/thing.npz":
            self.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and server.knows_ranges else 0
        if start >= len(CONTENT):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        stop = len(CONTENT) if server.breaks_off_at is None else server.breaks_off_at
        self.wfile.write(CONTENT[start:stop])

    def log_message(self, *_: Any) -> None:
        """Tests are quiet."""


@pytest.fixture
def server() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.ranges, server.knows_ranges, server.breaks_off_at = [], True, None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def file(server: Any, tmp_path: Path) -> PublishedFile:
    (tmp_path / "expected").write_bytes(CONTENT)
    url, sha256 = f"http://127.0.0.1:{server.server_port}/thing.npz", hashlib.sha256(CONTENT).hexdigest()
    return PublishedFile("thing.npz", url, md5_of(tmp_path / "expected"), sha256=sha256)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def break_off(server: Any, file: PublishedFile) -> None:
    server.breaks_off_at = 300_000
    with pytest.raises(DataError, match=r"stopped after 300,000 of 1,024,000 bytes: run the same command to continue"):
        fetch(file)
    server.breaks_off_at = None


def test_a_file_comes_whole_and_alone(file: PublishedFile, root: Path) -> None:
    assert fetch(file).read_bytes() == CONTENT
    assert [path.name for path in root.iterdir()] == ["thing.npz"]


def test_a_file_that_is_there_is_not_fetched_again(server: Any, file: PublishedFile) -> None:
    fetch(file)
    fetch(file)
    assert len(server.ranges) == 1


def test_a_damaged_file_is_fetched_again(file: PublishedFile, root: Path) -> None:
    root.mkdir()
    (root / "thing.npz").write_bytes(b"damaged")
    assert fetch(file).read_bytes() == CONTENT


def test_an_interrupted_download_is_not_taken_for_the_file(server: Any, file: PublishedFile, root: Path) -> None:
    break_off(server, file)
    assert not (root / "thing.npz").exists()


def test_an_interrupted_download_goes_on_where_it_broke_off(server: Any, file: PublishedFile) -> None:
    break_off(server, file)
    assert fetch(file).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-"]


def test_a_server_without_ranges_sends_it_all_again(server: Any, file: PublishedFile) -> None:
    break_off(server, file)
    server.knows_ranges = False
    assert fetch(file).read_bytes() == CONTENT


def test_a_download_that_only_lacked_its_name_is_not_repeated(server: Any, file: PublishedFile, root: Path) -> None:
    root.mkdir()
    (root / ".thing.npz.part").write_bytes(CONTENT)
    assert fetch(file).read_bytes() == CONTENT


def test_a_part_that_is_longer_than_the_file_is_thrown_away(file: PublishedFile, root: Path) -> None:
    root.mkdir()
    (root / ".thing.npz.part").write_bytes(CONTENT + b"more")
    assert fetch(file).read_bytes() == CONTENT


def test_progress_is_told_up_to_the_end(file: PublishedFile) -> None:
    told: list[tuple[int, int | None]] = []
    fetch(file, on_progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (len(CONTENT), len(CONTENT))


def test_a_wrong_checksum_is_refused_and_nothing_kept(file: PublishedFile, root: Path) -> None:
    with pytest.raises(DataError, match=r"must have MD5 0{32}, but the file from http://.* has another"):
        fetch(replace(file, md5="0" * 32))
    assert list(root.iterdir()) == []


def test_a_missing_page_is_named_with_the_answer(file: PublishedFile) -> None:
    with pytest.raises(DataError, match=r"other\.npz could not be downloaded: the server answered 404"):
        fetch(file, file.url.replace("thing", "other"))


def test_a_server_that_is_down_is_named(file: PublishedFile, server: Any) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(DataError, match=r"thing\.npz could not be downloaded \(.*refused.*\): check the network"):
        fetch(file)


def test_a_file_on_this_machine_will_do(file: PublishedFile, tmp_path: Path, root: Path) -> None:
    assert fetch(file, str(tmp_path / "expected")) == root / "thing.npz"
    assert (root / "thing.npz").read_bytes() == CONTENT


def test_a_file_on_this_machine_is_checked_too(file: PublishedFile, tmp_path: Path, root: Path) -> None:
    (tmp_path / "other").write_bytes(b"other")
    with pytest.raises(DataError, match="must have MD5"):
        fetch(file, str(tmp_path / "other"))
    assert list(root.iterdir()) == []


def test_a_root_that_cannot_be_written_is_named(file: PublishedFile, root: Path) -> None:
    root.write_text("")
    with pytest.raises(DataError, match=r"root/thing\.npz could not be written"):
        fetch(file)


def test_a_place_that_is_neither_is_refused(file: PublishedFile) -> None:
    with pytest.raises(DataError, match=r"--url must be an http.* address or an existing file, got nowhere"):
        fetch(file, "nowhere")


def test_http_is_refused_where_the_sha256_is_not_known(server: Any, file: PublishedFile, root: Path) -> None:
    with pytest.raises(DataError, match=r"thing\.npz must come over https, because its SHA-256 is not known.*--url"):
        fetch(replace(file, sha256=None))
    assert server.ranges == []
    assert not root.exists()


def test_redirects_keep_the_scheme(server: Any, file: PublishedFile, root: Path) -> None:
    elsewhere = file.url.replace("thing", "elsewhere")
    server.location = file.url
    assert fetch(replace(file, url=elsewhere)).read_bytes() == CONTENT
    (root / "thing.npz").unlink()
    server.location = file.url.replace("http", "ftp")
    with pytest.raises(DataError, match=r"must not redirect to another scheme, got ftp://"):
        fetch(replace(file, url=elsewhere))
    with pytest.raises(DataError, match=r"must not redirect to another scheme, got http://"):
        SameSchemeRedirects().redirect_request(
            urllib.request.Request("https://safe.org/x"), io.BytesIO(), 302, "", HTTPMessage(), "http://safe.org/x"
        )
