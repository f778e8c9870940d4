"""C-27: images are sent as blocks, upright, scaled, and without metadata. Each test uses a real worker."""

import struct
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.backends.convert.pictures import is_upright, near, quartered, read, saved, sent
from tests.scale import examples

MOST_SIDE = 1568
LARGEST = 5_000_000  # characters of an image in base64


@pytest.mark.parametrize(
    ("name", "form", "mode", "mime"),
    [
        ("a.png", "PNG", "RGB", "image/png"),
        ("a.png", "PNG", "RGBA", "image/png"),
        ("a.png", "PNG", "P", "image/png"),
        ("a.jpg", "JPEG", "RGB", "image/jpeg"),
        ("a.jpeg", "JPEG", "CMYK", "image/jpeg"),
        ("a.gif", "GIF", "P", "image/png"),
        ("a.webp", "WEBP", "RGB", "image/jpeg"),
        ("a.webp", "WEBP", "RGBA", "image/jpeg"),
    ],
)
def test_c27_an_image_comes_back_as_a_block_with_its_mime_type(name: str, form: str, mode: str, mime: str):
    reply = read(name, saved(quartered(mode=mode), form))
    image = sent(reply)
    assert (reply.status, reply.images[0].mime, image.size) == ("success", mime, (400, 200))
    assert is_upright(image)
    assert (reply.data["width"], reply.data["height"], reply.data["frames"]) == (400, 200, 1)


@pytest.mark.parametrize("mode", ["1", "L", "I;16", "LA"])
def test_c27_shades_of_grey_stay_what_they_are(mode: str):
    ramp = Image.linear_gradient("L")
    grey = ramp.convert("I").point(lambda value: value * 257).convert("I;16") if mode == "I;16" else ramp.convert(mode)
    image = sent(read("a.png", saved(grey, "PNG"))).convert("L")
    if mode == "1":
        assert image.resize((1, 2), Image.Resampling.BOX).tobytes()[1] > 128
    else:
        assert all(abs(image.tobytes()[256 * y] - y) < 3 for y in range(0, 256, 15))


def test_c27_what_can_be_seen_through_stays_so():
    glass = quartered(mode="RGBA")
    glass.putalpha(90)
    image = sent(read("a.png", saved(glass, "PNG")))
    assert image.mode == "RGBA"
    assert image.getpixel((9, 9)) == (255, 0, 0, 90)


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_c27_an_image_is_turned_upright(form: str, turn: int):
    undone = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # the Image.Transpose value that produces each orientation
    image = quartered()
    if turn in undone:
        image = image.transpose(Image.Transpose(undone[turn]))
    exif = Image.Exif()
    exif[0x112] = turn
    reply = read("a.x", saved(image, form, exif=exif))
    assert is_upright(sent(reply))
    assert sent(reply).size == (400, 200)
    assert (reply.data["width"], reply.data["height"], reply.data["turned"]) == (400, 200, turn > 1)


def test_c27_what_else_is_in_the_file_stays_there():
    exif = Image.Exif()
    exif[0x010E] = "secret description"
    exif[0x8825] = {1: "N", 2: (48.0, 8.0, 1.0)}
    about = PngInfo()
    about.add_text("Comment", "secret text")
    profile = b"secret profile" + bytes(200)
    files = {
        "a.jpg": saved(quartered(), "JPEG", exif=exif, comment=b"secret comment", icc_profile=profile),
        "a.png": saved(quartered(), "PNG", exif=exif, pnginfo=about, icc_profile=profile),
        "a.webp": saved(quartered(), "WEBP", exif=exif, icc_profile=profile),
        "a.gif": saved(quartered(mode="P"), "GIF", comment=b"secret comment"),
    }
    for name, data in files.items():
        image = sent(read(name, data))
        assert not {"exif", "icc_profile", "comment", "Comment", "dpi", "xmp"} & set(image.info)
        assert not dict(image.getexif())


def test_u16_an_8_mb_image_is_scaled_down_before_it_is_returned():
    noise = Image.effect_noise((3400, 2600), 90)
    data = saved(noise, "PNG")
    assert len(data) > 8_000_000
    reply = read("a.png", data)
    assert max(sent(reply).size) == MOST_SIDE
    assert len(reply.images[0].base64) < LARGEST
    assert f"shown at {MOST_SIDE} x 1199" in reply.text


def test_c27_the_worst_noise_stays_within_the_limit():
    noise = Image.merge("RGBA", [Image.effect_noise((MOST_SIDE, MOST_SIDE), 200) for _ in range(4)])
    reply = read("a.png", saved(noise, "PNG", compress_level=1))
    assert len(reply.images[0].base64) < LARGEST
    assert sent(reply).size == (MOST_SIDE, MOST_SIDE)


@settings(max_examples=examples(15))
@given(st.integers(1, 5000), st.integers(1, 3000))
def test_c27_no_image_is_ever_larger_than_models_take_or_than_it_was(width: int, height: int):
    size = sent(read("a.png", saved(Image.new("L", (width, height), 99), "PNG", compress_level=1))).size
    assert max(size) == min(MOST_SIDE, max(width, height))
    assert min(size) == max(1, round(min(width, height) * max(size) / max(width, height)))


def test_c27_an_animation_shows_its_first_frame_and_says_how_many_there_are():
    frames = [quartered(), Image.new("RGB", (400, 200), "blue"), Image.new("RGB", (400, 200), "green")]
    reply = read("a.gif", saved(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    assert (reply.status, reply.data["frames"]) == ("partial", 3)
    assert is_upright(sent(reply))
    assert "3 frames" in reply.text


def test_c27_a_name_that_lies_is_told():
    reply = read("a.png", saved(quartered(), "JPEG"))
    assert (reply.data["medium"], reply.data["named"]) == ("jpeg", "png")
    assert "Its name says PNG, but it is a JPEG." in reply.text
    assert read("a.jpg", saved(quartered(), "JPEG")).data["named"] is None


def test_nasty_17_a_declared_size_is_refused_before_anything_is_decoded():
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(900))) + chunk(b"IEND", b"")
    )
    reply = read("a.png", bomb)
    assert (reply.code, reply.error_source) == ("TOO_MANY_PIXELS", "model")
    assert (reply.data["width"], reply.data["height"]) == (50_000, 50_000)
    assert not reply.images


@pytest.mark.parametrize(("form", "name"), [("PNG", "a.png"), ("JPEG", "a.jpg"), ("GIF", "a.gif"), ("WEBP", "a.webp")])
def test_a_file_that_was_cut_off_is_told_as_broken(form: str, name: str):
    whole = saved(quartered(mode="P" if form == "GIF" else "RGB"), form)
    reply = read(name, whole[: len(whole) // 2])
    assert (reply.code, reply.data["medium"]) == ("BROKEN_FILE", {"a.jpg": "jpeg"}.get(name, name[2:]))


def test_nasty_17_an_svg_is_text_and_its_entities_are_letters():
    bomb = '<?xml version="1.0"?>\n<!DOCTYPE svg [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>\n<svg>&b;</svg>\n'
    reply = read("a.svg", bomb.encode())
    assert reply.status == "success"
    assert "     3→<svg>&b;</svg>" in reply.text
    assert not reply.images


def test_colours_come_through_every_way_of_storing_them():
    wanted: tuple[int, ...] = (200, 60, 20)
    flat = Image.new("RGB", (64, 64), wanted)
    kinds: list[tuple[Image.Image, str, dict[str, Any]]] = [
        (flat, "PNG", {}),
        (flat.convert("P", palette=Image.Palette.ADAPTIVE), "PNG", {}),
        (flat, "JPEG", {}),
        (flat.convert("YCbCr"), "JPEG", {}),
        (flat.convert("CMYK"), "JPEG", {}),
        (flat, "WEBP", {"lossless": True}),
    ]
    for image, form, options in kinds:
        assert near(sent(read("a", saved(image, form, **options))).convert("RGB").getpixel((32, 32)), wanted)
