"""Runs steps one after the other, each in processes of its own with a time of its own, and keeps what each found."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import traceback

from prepared import installed

GRACE = 3  # seconds between the request to end and the end
LEAST = 5  # seconds under which no step is begun
LOG_LINES = 6


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    question: str  # for the page: what it must find out
    needs: tuple  # parts
    expected: float  # seconds
    budget: float  # seconds after which it is ended
    find: object  # a function of (installed, say), which says each row as soon as it has it
    spare: bool = False  # whether it is for the time that is left when all others have run


class State:
    """What was found so far, in a file that each call continues."""

    def __init__(self, file):
        self.file = pathlib.Path(file)
        self.found = json.loads(self.file.read_text()) if self.file.exists() else {"calls": [], "parts": {}, "steps": {}}

    def save(self):
        unfinished = self.file.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(self.found, indent=1, ensure_ascii=False))
        unfinished.rename(self.file)


def is_finished(found):
    """Whether a later call has no reason to run the step again."""
    return found is not None and found["outcome"] in ("done", "no device", "failed", "not here")


def in_order(steps, found):
    """Those that were ended in an earlier call come last, so that one that hangs takes no time from the others."""
    return sorted(steps, key=lambda step: found.get(step.name, {}).get("outcome") == "stopped")


def time_for(step, left):
    """Seconds that the step gets; 0 where too few are left."""
    seconds = min(step.budget, left)
    return seconds if seconds >= min(LEAST, step.budget) else 0


def end_group(process):
    for number, seconds in ((signal.SIGTERM, GRACE), (signal.SIGKILL, GRACE)):
        try:
            os.killpg(process.pid, number)
            process.wait(seconds)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def end_former(home):
    """The step of a call that was ended from outside goes on, in a group of its own."""
    try:
        number = int((home / "step.pid").read_text())
        if b"\0step\0" in pathlib.Path(f"/proc/{number}/cmdline").read_bytes():
            os.killpg(number, signal.SIGKILL)
    except (OSError, ValueError):
        pass
    end_programs_of(home)


def end_programs_of(home):
    """Servers that went into the background have a group of their own: those whose program is in the kit's folder."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            program = os.readlink(folder / "exe")
            if program.startswith(f"{home}/"):
                os.kill(int(folder.name), signal.SIGKILL)
        except OSError:
            continue


def rows_in(file):
    rows = []
    if file.exists():
        for line in file.read_text().splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                continue  # ended while it was written
    return rows


def run_step(step, seconds, home, program):
    """The outcome, the rows, the seconds and the end of the log of a step."""
    folder = home / "steps"
    folder.mkdir(parents=True, exist_ok=True)
    rows, log = folder / f"{step.name}.jsonl", folder / f"{step.name}.log"
    rows.unlink(missing_ok=True)
    begin, stopped = time.monotonic(), False
    with open(log, "w") as out:
        process = subprocess.Popen([sys.executable, program, "step", step.name, "--rows", rows], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        (home / "step.pid").write_text(str(process.pid))
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            stopped = True
        end_group(process)
    end_programs_of(home)
    found = rows_in(rows)
    last = next((row for row in found if "outcome" in row and len(row) <= 2), None)
    outcome = "stopped" if stopped else last["outcome"] if last else "failed"
    about = {"outcome": outcome, "seconds": round(time.monotonic() - begin, 1), "rows": [row for row in found if row is not last]}
    if stopped:
        about["reason"] = f"it was ended after {seconds:.0f} s"
    elif last and last.get("reason"):
        about["reason"] = last["reason"]
    elif not last:
        about["reason"] = f"its process ended with {process.returncode}"
    if outcome in ("failed", "stopped"):
        about["log"] = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
    return about


def find(step, here, rows):
    """In the step's own process: its rows, one line each, and then the outcome."""
    with open(rows, "a", encoding="utf-8") as out:

        def say(**row):
            out.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
            out.flush()

        try:
            step.find(here, say)
            say(outcome="done")
        except installed.NoDevice as error:
            say(outcome="no device", reason=str(error))
        except installed.Unavailable as error:
            say(outcome="not here", reason=str(error))
        except Exception as error:  # noqa: BLE001 - the other steps go on
            traceback.print_exc()
            say(outcome="failed", reason=f"{type(error).__name__}: {error}")


def run_steps(steps, until, home, program, state, number, parts, write):
    """Those that are not finished and whose parts are here, until the time. `write` is called after each."""
    for step in steps:
        if is_finished(state.found["steps"].get(step.name)):
            continue
        lacking = [part for part in step.needs if part not in parts]
        seconds = time_for(step, until - time.monotonic() - GRACE)
        if lacking:
            about = {"outcome": "waits", "reason": f"for {', '.join(lacking)}", "rows": [], "seconds": 0}
        elif not seconds:
            about = {"outcome": "waits", "reason": "no time was left in this call", "rows": [], "seconds": 0}
        else:
            print(f"kit: {step.name} (at most {seconds:.0f} s)", flush=True)
            about = run_step(step, seconds, home, program)
            print(f"kit: {step.name}: {about['outcome']} in {about['seconds']} s{': ' + about['reason'] if about.get('reason') else ''}", flush=True)
        former = state.found["steps"].get(step.name)
        if former is None or about["outcome"] != "waits":
            state.found["steps"][step.name] = {**about, "call": number, "question": step.question}
        state.save()
        write()
