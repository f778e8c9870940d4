"""Syntax errors that a change made, and checkers that the user configured."""
