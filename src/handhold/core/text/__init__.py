"""Text as models quote it and files hold it."""
