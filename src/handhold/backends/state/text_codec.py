"""Text as it lies in the database: as bytes, so that any text comes back as it was."""


def to_bytes(text: str) -> bytes:
    """Text of any origin: names that are not UTF-8 and half characters from a model's JSON come back as they were."""
    return text.encode("utf-8", "surrogatepass")


def to_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
