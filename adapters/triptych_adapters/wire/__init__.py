"""What every way in from outside shares: JSON forms, errors, operations and their arguments.

The command line and the tools read it. It knows no framework.
"""
