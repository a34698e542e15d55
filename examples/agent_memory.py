"""The memory of an agent that talks to several people: what it learns, it finds again later.

python agent_memory.py remember ada "Drinks no coffee any more." --days 30
python agent_memory.py recall ada "what may I offer to drink?"
python agent_memory.py forget ada
"""

import argparse
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import triptych


class Memory:
    """Notes about people. Nobody's notes are found for somebody else."""

    def __init__(self, kb: triptych.KnowledgeBase) -> None:
        self._notes = kb.dataset("memory")
        self._notes.create()  # where it is not there yet

    def remember(self, person: str, text: str, days: int | None = None) -> None:
        """Keep a note, for so many days only if they are given."""
        now = datetime.now(UTC)
        ends = None if days is None else now + timedelta(days=days)
        name = f"{person}/{uuid4().hex}"
        self._notes.put(name, text, {"person": person, "said_at": now}, expires_at=ends)

    def recall(self, person: str, question: str, tokens: int = 300) -> str:
        """What a prompt takes of the notes about a person: the best first, under a budget."""
        where = {"person": person}
        pack = self._notes.context(question, token_budget=tokens, where=where)
        return "\n".join(f"- {piece.citation.text}" for piece in pack.pieces)

    def forget(self, person: str) -> int:
        """Delete all notes about a person; how many there were."""
        return len(self._notes.delete_many(where={"person": person}).deleted)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=["remember", "recall", "forget"])
    parser.add_argument("person")
    parser.add_argument("text", nargs="?", default="")
    parser.add_argument("--days", type=int)
    given = parser.parse_args()
    with triptych.open("memory.db") as kb:
        memory = Memory(kb)
        if given.action == "remember":
            memory.remember(given.person, given.text, given.days)
        elif given.action == "recall":
            print(memory.recall(given.person, given.text))
        else:
            print("forgot", memory.forget(given.person), "notes")


if __name__ == "__main__":
    main()
