"""Leaves in a library the CUDA code of one architecture. A library has its code once for each kind of GPU, in containers that the
library's own data points to. Each container keeps its place, with fewer entries; what follows them in it becomes zeros, which
compress to nothing. NVIDIA's cuobjdump lists the rest as before."""

import dataclasses
import struct

MAGIC = struct.pack("<I", 0xBA55ED50)
CONTAINER = struct.Struct("<IHHQ")  # magic, version, size of this header, size of the entries
SIZE_OFFSET = 8  # of the size of the entries
ENTRY = struct.Struct("<HHIQIIHHI")  # kind, version, size of this header, size of the code, …, minor, major, architecture
LEAST_HEADER = 64
PTX, MACHINE_CODE = 1, 2


@dataclasses.dataclass(frozen=True)
class Entry:
    kind: int
    architecture: int
    begin: int  # of its header
    end: int  # of its code


@dataclasses.dataclass(frozen=True)
class Container:
    begin: int
    end: int
    entries: tuple


def entries_of(data, begin, end):
    """None where this is no container of code."""
    found = []
    while begin < end:
        if begin + ENTRY.size > end:
            return None
        kind, _, header, size, *_, architecture = ENTRY.unpack_from(data, begin)
        if kind not in (PTX, MACHINE_CODE) or header < LEAST_HEADER or begin + header + size > end:
            return None
        found.append(Entry(kind, architecture, begin, begin + header + size))
        begin += header + size
    return tuple(found)


def container_at(data, begin):
    if begin + CONTAINER.size > len(data):
        return None
    _, version, header, size = CONTAINER.unpack_from(data, begin)
    end = begin + header + size
    if version != 1 or header != CONTAINER.size or end > len(data):
        return None
    entries = entries_of(data, begin + header, end)
    return Container(begin, end, entries) if entries else None


def containers_of(data):
    found, at = [], data.find(MAGIC)
    while at >= 0:
        container = container_at(data, at)
        if container:
            found.append(container)
        at = data.find(MAGIC, container.end if container else at + len(MAGIC))
    return found


def needed(entries, architecture):
    """What a GPU of this architecture runs: its machine code, or else the newest PTX that it can translate; all, if there is neither."""
    machine_code = [entry for entry in entries if entry.kind == MACHINE_CODE and entry.architecture == architecture]
    if machine_code:
        return machine_code
    ptx = [entry for entry in entries if entry.kind == PTX and entry.architecture <= architecture]
    if ptx:
        newest = max(entry.architecture for entry in ptx)
        return [entry for entry in ptx if entry.architecture == newest]
    return list(entries)


def keep(data, architecture):
    """The library with the code of this architecture alone, and how many bytes became zeros. 90: H100 and H200."""
    changed, removed = bytearray(data), 0
    for container in containers_of(data):
        kept = b"".join(data[entry.begin : entry.end] for entry in needed(container.entries, architecture))
        begin = container.begin + CONTAINER.size
        struct.pack_into("<Q", changed, container.begin + SIZE_OFFSET, len(kept))
        changed[begin : container.end] = kept.ljust(container.end - begin, b"\0")
        removed += container.end - begin - len(kept)
    return changed, removed
