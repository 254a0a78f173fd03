"""Which piece of which part travels in which call, what each call runs, and how long all of it takes. Pure functions."""

import dataclasses

MEBIBYTE = 1024 * 1024
LIMIT = 64 * MEBIBYTE  # of what one call carries, with the files of the working tree
MARGIN = 2 * MEBIBYTE  # names, archives' headers, files that were added since
RATE = 20e6  # bytes per second, each way
START = 40  # seconds until the machine is there
OVERHEAD = 4  # seconds of each call beside its command
WORK = 170  # seconds of steps in a call, so that one that hangs costs no more
COMMAND_LIMIT = 600  # seconds, and the characters below
CHARACTERS = 2000
GOAL = 720  # seconds of all calls; what does not fit is left for the time that remains
ALL = 900  # seconds of the machine in all


@dataclasses.dataclass(frozen=True)
class Piece:
    part: str
    number: int
    offset: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class Call:
    number: int
    pieces: tuple
    steps: tuple
    expected: float  # seconds, transfers included
    limit: int  # seconds of the command


def capacity(tree_bytes):
    """Bytes of parts that a call has room for."""
    return max(0, LIMIT - MARGIN - tree_bytes)


def cut(parts, room):
    """The pieces of each call: the parts, name to bytes, one behind the other in their order."""
    if room <= 0:
        raise ValueError("the working tree alone fills a call")
    calls, free = [[]], room
    for name, size in parts.items():
        number, offset = 1, 0
        while offset < size:
            if free == 0:
                calls.append([])
                free = room
            taken = min(free, size - offset)
            calls[-1].append(Piece(name, number, offset, taken))
            number, offset, free = number + 1, offset + taken, free - taken
    return calls


def complete_after(calls, parts):
    """For each call, the parts that are whole when it has arrived."""
    arrived, found = {name: 0 for name in parts}, []
    for pieces in calls:
        for piece in pieces:
            arrived[piece.part] += piece.bytes
        found.append({name for name, size in parts.items() if arrived[name] == size})
    return found


def assign(steps, whole, work=WORK):
    """The steps of each call, in order of worth: as soon as their parts are there, as long as a call has time. Calls without
    pieces follow for what is left, the steps for spare time last."""
    calls = fill([step for step in steps if not step.spare], whole, work)
    return calls + fill([step for step in steps if step.spare], whole[-1:], work, least=0)


def fill(steps, whole, work, least=None):
    """At least so many calls: as many as there are in `whole`, unless `least` says otherwise."""
    waiting, calls, least = list(steps), [], len(whole) if least is None else least
    while len(calls) < least or waiting:
        there = whole[min(len(calls), len(whole) - 1)]
        taken, seconds = [], 0
        for step in waiting:
            if set(step.needs) <= there and (not taken or seconds + step.expected <= work):
                taken.append(step)
                seconds += step.expected
        if len(calls) >= len(whole) and not taken:
            raise ValueError(f"no call brings what {waiting[0].name} needs: {', '.join(waiting[0].needs)}")
        waiting = [step for step in waiting if step not in taken]
        calls.append(taken)
    return calls


def seconds_of(pieces, steps, tree_bytes, unpack_rate=60e6):
    """Of one call: both ways, unpacking (bytes of compressed parts per second), and the steps."""
    carried = sum(piece.bytes for piece in pieces)
    return (carried + tree_bytes) / RATE + carried / unpack_rate * 4 + OVERHEAD + sum(step.expected for step in steps)


def calls_of(parts, steps, tree_bytes):
    pieces = cut(parts, capacity(tree_bytes))
    runs = assign(steps, complete_after(pieces, parts))
    pieces += [[] for _ in range(len(runs) - len(pieces))]
    found = []
    for number, (carried, taken) in enumerate(zip(pieces, runs, strict=True), 1):
        expected = seconds_of(carried, taken, tree_bytes)
        limit = min(COMMAND_LIMIT, round(1.4 * sum(step.expected for step in taken) + 45))
        found.append(Call(number, tuple(carried), tuple(taken), expected, limit))
    return found


def command_of(call):
    """One line for the other machine. It says what is wrong even where Python cannot start the program."""
    return f"python3 bench/gpu/kit run {call.number} --seconds {call.limit - 15}"


def carried_of(call, folder):
    return [f"{folder}/call-{call.number}"] if call.pieces else []


def ends(calls):
    """Seconds of the machine when each call has ended."""
    found, seconds = [], START
    for call in calls:
        seconds += call.expected
        found.append(seconds)
    return found
