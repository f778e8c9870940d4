"""The hub: keeps the journals of many sandboxes, on PostgreSQL and an object store (docs/hub.md)."""
