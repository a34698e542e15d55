"""The write side: documents are stored, derived, embedded and rebuilt."""
