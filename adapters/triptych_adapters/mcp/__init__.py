"""The knowledge base as a server of the Model Context Protocol.

Nothing here is imported by the rest of Triptych: importing the protocol's SDK takes a second.
"""
