"""The kit's tests of a Service, through a server and the client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.servers import Switch, listening
from triptych.contracts import Store
from triptych.errors import DerivationError, ProviderError
from triptych.service import Service, ServiceOptions
from triptych_backends.memory import MemoryStore
from triptych_server.client import connect
from triptych_server.http import create_app
from triptych_testing import Harness, ServiceTests


@pytest.fixture(scope="module")
def switch() -> Iterator[tuple[Switch, str]]:
    app = Switch()
    with listening(app) as url:
        yield app, url


class TestOverHttp(ServiceTests):
    @pytest.fixture
    def harness(self) -> Harness:
        return Harness(open=MemoryStore, scratch=MemoryStore)

    @pytest.fixture
    def kb(self, store: Store, embedder: Any, switch: tuple[Switch, str]) -> Iterator[Service]:
        app, url = switch
        options = ServiceOptions(embedder=embedder)
        with Service(store, options=options) as service, connect(url) as remote:
            app.app = create_app(service, write=True)
            yield remote

    # What a server does not say: the messages of its models and drivers, what was made half, and
    # how far it is within one request. Its repositories are not here either.
    test_a_failing_embedder_leaves_the_document_found_by_keyword = None
    test_a_search_of_few_hits_warns_of_documents_without_chunks = None
    test_an_outage_loses_no_vector_and_goes_on_where_it_began = None
    test_progress_tells_documents_and_embedded_texts = None
    test_a_failing_lane_is_named_in_hybrid_and_raises_alone = None
    test_a_layer_that_cannot_be_embedded_is_not_stored = None

    def test_a_failing_embedder_leaves_the_document_and_its_reason_there(
        self, kb: Service, embedder: Any
    ) -> None:
        embedder.fail(ProviderError("the model at 10.0.0.7 is out"))
        with pytest.raises(DerivationError) as caught:
            kb.put_document("d", "a.md", "Pull the lid.")
        assert caught.value.document is not None
        assert caught.value.document.version == 1
        assert "10.0.0.7" not in str(caught.value)
        assert kb.search("lid", dataset_id="d", mode="bm25").hits[0].doc_name == "a.md"
        warnings = kb.search("lid", dataset_id="d").warnings
        assert warnings
        assert not [each for each in warnings if "10.0.0.7" in each]
        with pytest.raises(ProviderError) as failed:
            kb.search("lid", dataset_id="d", mode="vector")
        assert "10.0.0.7" not in str(failed.value)
