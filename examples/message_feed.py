"""Channels of messages that any number of programs post to, follow and search.

python message_feed.py post general ada "The build is green."
python message_feed.py follow                prints what is posted, from where it last stopped
python message_feed.py search "is the build green"
"""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import triptych

CURSOR = Path("feed.cursor")


def post(kb: triptych.KnowledgeBase, channel: str, author: str, text: str) -> None:
    """Post a message. Names of messages sort by time."""
    now = datetime.now(UTC)
    name = f"{channel}/{now:%Y%m%d-%H%M%S-%f}-{author}"
    kb.put_document("messages", name, text, {"channel": channel, "author": author, "at": now})


def follow(kb: triptych.KnowledgeBase) -> None:
    """Print each message once, also over restarts and whichever process posts it."""
    since = CURSOR.read_text() if CURSOR.exists() else None
    for page in kb.follow(since, dataset_id="messages"):
        for change in page.changes:
            try:
                message = kb.get_document("messages", change.name)
            except triptych.NotFoundError:
                print(f"{change.name} was deleted", flush=True)
            else:
                channel, author = message.metadata["channel"], message.metadata["author"]
                print(f"#{channel} {author}: {message.content}", flush=True)
        CURSOR.write_text(page.cursor)  # after the messages: a crash repeats them, and loses none


def search(kb: triptych.KnowledgeBase, query: str) -> None:
    """Print the messages that answer best."""
    for hit in kb.search(query, dataset_id="messages", top_k=3).hits:
        print(f"#{hit.metadata['channel']} {hit.metadata['author']}: {hit.content}")


ACTIONS: dict[str, Callable[..., None]] = {"post": post, "follow": follow, "search": search}

if __name__ == "__main__":
    action, *words = sys.argv[1:] or ["follow"]
    with triptych.open("feed.db") as kb:
        kb.dataset("messages").create()
        ACTIONS[action](kb, *words)
