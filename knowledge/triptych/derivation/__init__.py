"""The write path: storing, deriving, embedding and rebuilding documents."""
