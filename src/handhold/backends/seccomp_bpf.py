"""Seccomp filters as BPF programs: their instructions, and the supported architectures."""

import struct
from dataclasses import dataclass

# Offsets in struct seccomp_data. Both architectures are little-endian: the low half of an argument comes first.
NR_OFFSET, ARCH_OFFSET, ARGS_OFFSET = 0, 4, 16
BPF_LOAD, BPF_JUMP_EQUAL, BPF_JUMP_GREATER_EQUAL, BPF_JUMP_ANY_BIT, BPF_AND, BPF_RETURN = (
    0x20,
    0x15,
    0x35,
    0x45,
    0x54,
    0x06,
)
SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO = 0x7FFF0000, 0x00050000


@dataclass(frozen=True)
class Architecture:
    """A processor architecture. `column` is its index in tables of call numbers."""

    audit_arch: int
    column: int


ARCHITECTURES = {"x86_64": Architecture(0xC000003E, 0), "aarch64": Architecture(0xC00000B7, 1)}


def load_word(offset: int) -> bytes:
    return _pack_instruction(BPF_LOAD, 0, 0, offset)


def jump_if(code: int, value: int, skip_if_true: int, skip_if_false: int) -> bytes:
    """How many instructions to skip if the condition is true, and if it is false."""
    return _pack_instruction(code, skip_if_true, skip_if_false, value)


def mask_bits(mask: int) -> bytes:
    """Keep only these bits of the loaded word."""
    return _pack_instruction(BPF_AND, 0, 0, mask)


def return_action(action: int) -> bytes:
    return _pack_instruction(BPF_RETURN, 0, 0, action)


def _pack_instruction(code: int, skip_if_true: int, skip_if_false: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, skip_if_true, skip_if_false, value)
