"""Leaves in a library the CUDA code of one architecture. A library has its code once for each kind of GPU; what other kinds need
becomes zeros, which compress to nothing. The offsets stay, so that the library loads as before."""

import struct

MAGIC = struct.pack("<I", 0xBA55ED50)
CONTAINER = struct.Struct("<IHHQ")  # magic, version, size of this header, size of the entries
ENTRY = struct.Struct("<HHIQIIHHI")  # kind, version, size of this header, size of the code, …, minor, major, architecture
PTX, MACHINE_CODE = 1, 2


def entries_of(data, begin, end):
    """(kind, architecture, first byte of the code, its size) of each entry; None where this is no container of code."""
    found = []
    while begin < end:
        if begin + ENTRY.size > end:
            return None
        kind, _, header, size, *_, architecture = ENTRY.unpack_from(data, begin)
        if kind not in (PTX, MACHINE_CODE) or header < 64 or begin + header + size > end:
            return None
        found.append((kind, architecture, begin + header, size))
        begin += header + size
    return found


def containers_of(data):
    """The entries of each container."""
    at = data.find(MAGIC)
    while at >= 0:
        end = at + 4
        if at + CONTAINER.size <= len(data):
            _, version, header, size = CONTAINER.unpack_from(data, at)
            if version == 1 and header == CONTAINER.size and at + header + size <= len(data):
                entries = entries_of(data, at + header, at + header + size)
                if entries:
                    yield entries
                    end = at + header + size
        at = data.find(MAGIC, end)


def needed(entries, architecture):
    """What a GPU of this architecture runs: its machine code, or else the newest PTX that it can translate; all, if there is neither."""
    machine_code = [entry for entry in entries if entry[0] == MACHINE_CODE and entry[1] == architecture]
    if machine_code:
        return machine_code
    ptx = [entry for entry in entries if entry[0] == PTX and entry[1] <= architecture]
    if ptx:
        newest = max(entry[1] for entry in ptx)
        return [entry for entry in ptx if entry[1] == newest]
    return entries


def keep(data, architecture):
    """The library with the code of this architecture alone, and how many bytes became zeros. 90: H100 and H200."""
    data, removed = bytearray(data), 0
    for entries in list(containers_of(data)):
        kept = needed(entries, architecture)
        for entry in entries:
            if entry not in kept:
                _, _, begin, size = entry
                data[begin : begin + size] = bytes(size)
                removed += size
    return data, removed
