"""A Haystack pipeline whose documents, and whose search, are Triptych's.

pip install haystack-ai
python haystack_answer.py "when is tea?"

The model is OpenAI's, or one behind a compatible address that OPENAI_BASE_URL names.
"""

import os
import sys

from haystack import Document, Pipeline
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.document_stores.types import DuplicatePolicy

from triptych_frameworks.haystack import TriptychDocumentStore, TriptychRetriever

PROMPT = """Answer from these documents alone.
{% for document in documents %}
{{ document.meta["triptych"]["doc_name"] }}: {{ document.content }}
{% endfor %}
Question: {{ question }}"""


def make_pipeline(store: TriptychDocumentStore) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("search", TriptychRetriever(store, top_k=3))
    prompt = ChatPromptBuilder([ChatMessage.from_user(PROMPT)], required_variables="*")
    pipeline.add_component("prompt", prompt)
    url = os.environ.get("OPENAI_BASE_URL")
    pipeline.add_component("answer", OpenAIChatGenerator(model="gpt-4o-mini", api_base_url=url))
    pipeline.connect("search.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "answer.messages")
    return pipeline


if __name__ == "__main__":
    question = sys.argv[1]
    store = TriptychDocumentStore("haystack.db", "notes")
    notes = [
        Document(id="tea.md", content="Tea is at four."),
        Document(id="supper.md", content="Supper is at seven."),
    ]
    store.write_documents(notes, policy=DuplicatePolicy.OVERWRITE)
    done = make_pipeline(store).run(
        {"search": {"query": question}, "prompt": {"question": question}}
    )
    print(done["answer"]["replies"][0].text)
    store.close()
