"""Adapters for agent frameworks and vendor clients. Each module imports its framework only when it is used."""
