"""The base of all external interfaces: JSON, errors, operations and their arguments.

The command line and the tools read it. It knows no framework.
"""
