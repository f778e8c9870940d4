from tests.backends.shell.forked import place, who

__all__ = ["place", "who"]
