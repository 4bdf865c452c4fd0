"""The documentation site: its pages, its examples, and what it must not leave out."""

import ast
import doctest
import re
from pathlib import Path

import pytest

import sae
from tests.docs.pages import ROOT, read_blocks, run_block
from tests.docs.test_readme import assert_same_table

pytestmark = pytest.mark.long

DOCS = ROOT / "docs"
API = DOCS / "api.rst"
TOCTREE = re.compile(r"^:::\{toctree\}\n(?::\w+:[^\n]*\n)*\n(?P<pages>.*?)^:::$", re.MULTILINE | re.DOTALL)


def test_every_public_name_is_in_the_reference_with_an_example() -> None:
    text = API.read_text(encoding="utf-8")
    for name in set(dir(sae)) - {"__version__"}:
        assert re.search(rf"^\.\. auto\w+:: sae\.{name}$", text, re.MULTILINE), f"docs/api.rst must have sae.{name}"
        shown = "\n".join(line for line in text.splitlines() if line.startswith((">>>", "...")))
        is_used = f"sae.{name}" in shown or ">>>" in (getattr(sae, name).__doc__ or "")
        assert is_used, f"sae.{name} must have an example, in docs/api.rst or in its docstring"


def test_the_examples_of_the_reference_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(str(API), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert found.attempted > 20
    assert found.failed == 0


def test_every_page_is_on_the_site() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = {line for match in TOCTREE.finditer(text) for line in match["pages"].split()}
    pages = {path.stem for path in (*DOCS.glob("*.md"), *DOCS.glob("*.rst"))} - {"index"}
    assert listed == pages | {"gallery/index"}
    assert not pages & {"search", "genindex", "modindex"}  # pages of Sphinx itself, which would replace ours


def messages(code: str) -> list[str]:
    """Return the texts in Python code, with … in the place of what a text is filled with."""
    texts = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.JoinedStr):
            texts.append("".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return texts


def test_the_messages_that_are_explained_exist() -> None:
    _, _, table = (DOCS / "faq.md").read_text(encoding="utf-8").partition("## Errors")
    explained = [message.strip(" …") for message in re.findall(r"^\| (.+?) \|", table, re.MULTILINE)][1:]
    assert len(explained) > 10
    ours = [text for path in (ROOT / "src").rglob("*.py") for text in messages(path.read_text(encoding="utf-8"))]
    for message in explained:
        assert any(message in text for text in ours), f"no command of sae says: {message}"


def test_links_lead_to_pages_of_the_site_and_folders_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(DOCS))
    from conf import link_inside  # type: ignore[import-not-found]

    assert link_inside("[Files](reproduction), [page](reproduction.md#a)", DOCS) == (
        "Files (`docs/reproduction`), [page](reproduction.md#a)"
    )
    assert link_inside("[examples](../examples), [write](../CONTRIBUTING.md)", DOCS) == (
        "`examples`, [write](contributing.md)"
    )


def test_the_notice_names_the_versions_that_are_bundled() -> None:
    vl_convert = pytest.importorskip("vl_convert")
    versions = {
        "Vega": vl_convert.get_vega_version(),
        "Vega-Lite": vl_convert.get_vegalite_versions()[-1],
        "vega-embed": vl_convert.get_vega_embed_version(),
    }
    text = (ROOT / "NOTICE").read_text(encoding="utf-8")
    for name, version in versions.items():
        assert re.search(rf"\b{name} {version.partition('.')[0]}\b", text), f"{name} {version} is bundled"


def test_the_first_page_works_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    names: dict[str, object] = {}
    blocks = [block for block in read_blocks(DOCS / "start.md") if block.language in ("bash", "python")]
    assert all(block.reason is None for block in blocks)
    for block in blocks:
        run_block(block, names)
    made = {path.name for path in Path().rglob("*.*")}
    assert {"wine.csv", "config.yaml", "model.onnx", "manifest.json", "predictions.csv"} <= made
    assert len(Path("predictions.csv").read_text(encoding="utf-8").splitlines()) == 45  # a header and 44 rows


def test_the_readme_works_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SAE_DATA_ROOT", raising=False)
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    names: dict[str, object] = {}
    for block in read_blocks(ROOT / "README.md"):
        if block.language in ("bash", "python") and block.reason is None:
            printed = run_block(block, names)
            if block.output is not None:
                assert_same_table(printed, block.output)


SCRIPTS = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_of_the_gallery_runs(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    pyplot.switch_backend("agg")
    exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), {"__name__": script.stem})
    assert pyplot.get_fignums()
    pyplot.close("all")
