"""Chat with a folder of notes: `python chat_over_a_folder.py FOLDER`, a question a line.

Answers come as they are written, and below each stand the lines that it cites. The model is the
one that TRIPTYCH_LLM names, such as ollama:qwen3 or openai:gpt-4o-mini.
"""

import sys

import triptych
from triptych.shortcuts import ingest_directory

folder = sys.argv[1]
with triptych.open("chat.db") as kb:
    ingest_directory(kb, folder, "notes")  # what is unchanged costs nothing
    notes = kb.dataset("notes")
    turns: tuple[triptych.Message, ...] = ()
    print("Ask about", folder)
    for question in filter(str.strip, sys.stdin):
        with notes.ask_stream(question, conversation=turns) as stream:
            for piece in stream:
                print(piece, end="", flush=True)
        print()
        for source in stream.answer.citations:
            print(f"  [{source.number}] {source.citation}")
        turns = stream.answer.conversation  # so that "and its limits?" is understood
