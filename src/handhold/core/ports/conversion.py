"""Converts images and PDF files for a model."""

from typing import Protocol

from handhold.core.facts import (
    ConvertedImage,
    ConvertedPdf,
)
from handhold.core.plans import Convert


class Converter(Protocol):
    """Converts a file that is not text into text and images. The file may be malicious."""

    def convert(self, convert: Convert) -> ConvertedImage | ConvertedPdf:
        """An image, or pages of a PDF.

        BrokenFile, EncryptedPdf, TooManyPixels, ConversionLimitExceeded, NoSuchPage or ExtraMissing.
        """
        ...
