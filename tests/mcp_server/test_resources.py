"""Resources without a protocol: URIs, pages, texts; the configuration of agents."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import triptych
from support.rows import each_row
from triptych.errors import NotFoundError, ValidationError
from triptych.records import Layer
from triptych_server.mcp.configuration import AGENTS, configuration
from triptych_server.mcp.resources import TEMPLATES, Place, Resources, read_uri

TEXTS = st.text(min_size=1).filter(lambda text: text.isprintable())
PLACES = st.one_of(
    st.builds(Place, dataset_id=TEXTS, name=TEXTS),
    st.builds(Place, dataset_id=TEXTS, name=TEXTS, version=st.integers(1, 10**9 - 1)),
    st.builds(Place, dataset_id=TEXTS, name=TEXTS | st.just(""), layer=st.sampled_from(Layer)),
)


@given(PLACES)
def test_a_uri_leads_back_to_its_place(place: Place) -> None:
    assert read_uri(place.uri) == place
    assert place.uri.isascii()
    assert not any(part in (".", "..") for part in place.uri.split("/"))


@each_row(
    "uri",
    [
        "",
        "triptych://dataset/docs",
        "triptych://dataset//document/a.md",
        "triptych://dataset/docs/document/",
        "triptych://dataset/docs/version/0/a.md",
        "triptych://dataset/docs/layer/L3/a.md",
        "triptych://dataset/docs/document/a.md?x=1",
        "triptych://dataset/docs/document/%FF",
        "file:///etc/passwd",
        "triptych://dataset/docs/document/a.md\n",
    ],
)
def test_a_uri_of_another_form_names_nothing(uri: str) -> None:
    with pytest.raises(NotFoundError, match="there is no resource"):
        read_uri(uri)


def test_the_templates_have_the_forms_of_uris() -> None:
    values = {"dataset_id": "docs", "+name": "a/b.md", "version": "3", "layer": "L0"}
    for template in TEMPLATES:
        uri = template["uriTemplate"]
        for key, value in values.items():
            uri = uri.replace("{" + key + "}", value)
        assert read_uri(uri).uri == uri


def test_pages_joined_are_all_layers_and_documents() -> None:
    with triptych.open("memory://", embedder=None) as service:
        service.put_documents("docs", {f"{at:03} ?.md": "text" for at in range(230)})
        service.put_dataset_layer("docs", "L0", "All of it.")
        service.put_documents("home", {f"{at:03}.txt": "text" for at in range(99)})
        service.put_dataset_layer("home", "L0", "Abstract.")
        service.put_dataset_layer("home", "L1", "Overview.")
        for dataset_id in (None, "home"):
            resources = Resources(service=service, dataset_id=dataset_id)
            found, cursor, pages = [], None, 0
            while True:
                page, cursor = resources.page(cursor)
                found += [each["uri"] for each in page]
                pages += 1
                if cursor is None:
                    break
            places = [read_uri(uri) for uri in found]
            assert len(set(found)) == len(found)
            assert {each.dataset_id for each in places} == {"docs", "home"} - (
                set() if dataset_id is None else {"docs"}
            )
            assert pages == (4 if dataset_id is None else 2)
            assert len(found) == (332 if dataset_id is None else 101)
            assert all(resources.read(uri)["text"] for uri in (found[0], found[-1]))
        with pytest.raises(ValidationError, match="damaged"):
            resources.page("x")


def test_texts_of_documents_versions_and_layers_are_read(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=None) as service:
        service.put_document("docs", "a b.md", "one")
        service.put_document("docs", "a b.md", "two")
        service.put_document("docs", "guide/c.md", "three")
        service.put_folder_layer("docs", "guide/", "L1", "The guide.")
        service.put_dataset_layer("docs", "L0", "All.")
        resources = Resources(service=service)
        root = "triptych://dataset/docs"
        assert resources.read(f"{root}/document/a%20b.md") == {
            "uri": f"{root}/document/a%20b.md",
            "mimeType": "text/markdown",
            "text": "two",
        }
        assert resources.read(f"{root}/version/1/a%20b.md")["text"] == "one"
        assert resources.read(f"{root}/layer/L1/guide/")["text"] == "The guide."
        assert resources.read(f"{root}/layer/L0")["text"] == "All."
        for uri in ("/document/b.md", "/version/9/a%20b.md", "/layer/L1", "/layer/L0/a%20b.md"):
            with pytest.raises(NotFoundError):
                resources.read(root + uri)
        bound = Resources(service=service, dataset_id="home")
        with pytest.raises(NotFoundError, match="there is no resource"):
            bound.read(f"{root}/document/a%20b.md")
        assert bound.page(None) == ([], None)


def test_arguments_of_templates_are_completed(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=None) as service:
        service.put_documents("docs", {f"guide/{at:03}.md": "text" for at in range(120)})
        service.put_document("docs", "tea.md", "one")
        service.put_document("docs", "tea.md", "two")
        service.put_document("home", "tea.md", "text")
        resources = Resources(service=service)
        docs = {"dataset_id": "docs"}
        assert resources.complete("dataset_id", "", {}) == (["docs", "home"], True)
        assert resources.complete("dataset_id", "h", {}) == (["home"], True)
        assert resources.complete("name", "te", docs) == (["tea.md"], True)
        names, whole = resources.complete("name", "guide/", docs)
        assert (len(names), names[0], whole) == (100, "guide/000.md", False)
        assert resources.complete("layer", "", docs) == (["L0", "L1"], True)
        assert resources.complete("version", "", {**docs, "name": "tea.md"}) == (["2", "1"], True)
        for argument, given in (
            ("name", {}),
            ("name", {"dataset_id": "none"}),
            ("version", docs),
            ("other", docs),
        ):
            assert resources.complete(argument, "", given) == ([], True)
        bound = Resources(service=service, dataset_id="home")
        assert bound.complete("dataset_id", "", {}) == (["home"], True)
        assert bound.complete("name", "", docs) == (["tea.md"], True)


@each_row("agent", AGENTS)
def test_an_agent_is_given_the_command_or_the_url(agent: str) -> None:
    command = ["/usr/bin/triptych", "mcp", "--store", '/home/"me"/kb.db']
    load = tomllib.loads if agent == "codex" else json.loads
    for text in (
        configuration(agent, command=command),
        configuration(agent, url="http://127.0.0.1:8765/mcp"),
    ):
        ((_, servers),) = load(text).items()
        server = servers["triptych"]
        if "command" in server:
            assert [server["command"], *server["args"]] == command
        else:
            assert "http://127.0.0.1:8765/mcp" in server.values()
