"""Images and PDFs as a model can take them."""

from typing import Protocol

from handhold.core.facts import (
    ConvertedImage,
    ConvertedPdf,
)
from handhold.core.plans import Convert


class Converter(Protocol):
    """Makes of a file that is not text what a model can take. What it is handed may be made to do harm."""

    def convert(self, convert: Convert) -> ConvertedImage | ConvertedPdf:
        """An image, or pages of a PDF.

        BrokenFile, EncryptedPdf, TooManyPixels, ConversionLimitExceeded, NoSuchPage or ExtraMissing.
        """
        ...
