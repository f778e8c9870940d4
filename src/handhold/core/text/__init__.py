"""Text as models quote it and as files store it."""
