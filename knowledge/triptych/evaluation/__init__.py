"""Evaluation: how well a knowledge base finds, and how far the numbers can be trusted."""
