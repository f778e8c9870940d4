"""Read the size of an image from its first bytes, without decoding it."""

from handhold.core.facts import Medium

MEDIUM_BY_MIME: dict[str, Medium] = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif"}
_JPEG_SIZE_MARKERS = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # JPEG markers that are followed by the size


def read_image_size(data: bytes, medium: Medium) -> tuple[int, int] | None:
    """Width and height; None if this is not such an image, or does not say."""
    match medium:
        case "png" if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR" and len(data) >= 24:
            size = _read_uint(data[16:20]), _read_uint(data[20:24])
        case "gif" if data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
            size = int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
        case "jpeg" if data.startswith(b"\xff\xd8"):
            size = _read_jpeg_size(data)
        case _:
            return None
    return size if size and all(size) else None


def _read_jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while data[at : at + 1] == b"\xff" and at + 9 <= len(data):
        marker = data[at + 1]
        if marker in _JPEG_SIZE_MARKERS:
            return _read_uint(data[at + 7 : at + 9]), _read_uint(data[at + 5 : at + 7])
        at += 1 if marker == 0xFF else 2 + max(2, _read_uint(data[at + 2 : at + 4]))  # 0xff is padding
    return None


def _read_uint(data: bytes) -> int:
    return int.from_bytes(data, "big")
