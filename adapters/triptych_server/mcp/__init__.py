"""A server of the Model Context Protocol for a knowledge base.

The rest of Triptych does not import it, because importing the protocol's SDK takes a second.
"""
