from tests.world.shell.forked import place, who

__all__ = ["place", "who"]
