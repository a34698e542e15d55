"""A graph that searches, answers with citations, and says so where nothing was found.

pip install langgraph
python langgraph_answer.py FOLDER "how often is a request repeated?"

The model is the one that TRIPTYCH_LLM names, such as ollama:qwen3.
"""

import sys
from typing import TypedDict

from langgraph.graph import END, START, StateGraph

import triptych
from triptych.shortcuts import ingest_directory


class State(TypedDict, total=False):
    question: str
    evidence: str  # "strong", "fair", "weak" or "none"
    answer: str
    sources: list[str]


def make_graph(docs):
    def search(state: State) -> State:
        return {"evidence": docs.search(state["question"]).evidence.level}

    def answer(state: State) -> State:
        found = docs.ask(state["question"])
        sources = [f"[{each.number}] {each.citation.doc_name}" for each in found.citations]
        return {"answer": found.text, "sources": sources}

    def decline(state: State) -> State:
        return {"answer": "The documents say nothing about that.", "sources": []}

    graph = StateGraph(State)
    for node in (search, answer, decline):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "search")
    graph.add_conditional_edges(
        "search", lambda state: "decline" if state["evidence"] == "none" else "answer"
    )
    graph.add_edge("answer", END)
    graph.add_edge("decline", END)
    return graph.compile()


if __name__ == "__main__":
    folder, question = sys.argv[1:]
    with triptych.open("graph.db") as kb:
        ingest_directory(kb, folder, "docs")
        done = make_graph(kb.dataset("docs")).invoke({"question": question})
        print(done["answer"], *done["sources"], sep="\n")
