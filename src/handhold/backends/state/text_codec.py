"""Text in the database: stored as bytes, so that any text is restored exactly."""


def to_bytes(text: str) -> bytes:
    """Encode any text: names that are not UTF-8, and lone surrogates from a model's JSON, are restored exactly."""
    return text.encode("utf-8", "surrogatepass")


def to_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
