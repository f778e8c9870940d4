"""Persistent state: the journal, contents, and what each session has seen."""
