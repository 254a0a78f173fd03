"""Tries what bench/gpu/kit decides: which code stays in a library, which piece travels when, what runs when, how long, and the page."""

import hashlib
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/gpu"))

from prepared import arrival, cuda_code, page, plan, runner


def entry(kind, architecture, code):
    return cuda_code.ENTRY.pack(kind, 0x101, 64, len(code), 0, 0, 0, 8, architecture).ljust(64, b"\0") + code


def container(*entries):
    body = b"".join(entries)
    return cuda_code.CONTAINER.pack(0xBA55ED50, 1, 16, len(body)) + body


def step(name, needs=("a",), expected=10.0, spare=False):
    return runner.Step(name, "?", needs, expected, 2 * expected, None, spare)


class CudaCode(unittest.TestCase):
    def kept(self, *entries):
        """The entries of a container that stay for architecture 90, and its bytes."""
        library = b"before" + container(*entries) + b"after"
        changed, removed = cuda_code.keep(library, 90)
        self.assertEqual(len(changed), len(library))
        self.assertTrue(changed.startswith(b"before") and changed.endswith(bytes(removed) + b"after"))
        (found,) = cuda_code.containers_of(bytes(changed))
        self.assertEqual(found.end + removed, len(library) - len(b"after"))
        return [(one.kind, one.architecture) for one in found.entries], bytes(changed)

    def test_code_of_other_architectures_goes(self):
        entries, data = self.kept(entry(2, 80, b"eighty"), entry(2, 90, b"ninety"), entry(1, 90, b"ptx"))
        self.assertEqual(entries, [(2, 90)])
        self.assertIn(b"ninety", data)
        for gone in (b"eighty", b"ptx"):
            self.assertNotIn(gone, data)

    def test_the_newest_ptx_stays_where_there_is_no_machine_code(self):
        entries, data = self.kept(entry(2, 80, b"eighty"), entry(1, 80, b"older"), entry(1, 90, b"newer"), entry(1, 120, b"newest"))
        self.assertEqual(entries, [(1, 90)])
        self.assertIn(b"newer", data)

    def test_a_container_for_others_alone_stays_whole(self):
        self.assertEqual(self.kept(entry(2, 100, b"hundred"), entry(1, 120, b"ptx"))[0], [(2, 100), (1, 120)])

    def test_what_only_looks_like_a_container_stays(self):
        for library in (cuda_code.MAGIC, cuda_code.MAGIC + bytes(60), container(entry(7, 80, b"kind")), container(entry(2, 80, b"eighty"))[:-1]):
            self.assertEqual(cuda_code.keep(library, 90), (library, 0))


class Plan(unittest.TestCase):
    def test_parts_are_cut_where_a_call_is_full(self):
        calls = plan.cut({"a": 70, "b": 50}, 50)
        self.assertEqual([[(piece.part, piece.number, piece.offset, piece.bytes) for piece in call] for call in calls],
                         [[("a", 1, 0, 50)], [("a", 2, 50, 20), ("b", 1, 0, 30)], [("b", 2, 30, 20)]])
        self.assertEqual(plan.complete_after(calls, {"a": 70, "b": 50}), [set(), {"a"}, {"a", "b"}])

    def test_a_tree_that_fills_a_call_is_refused(self):
        self.assertEqual(plan.capacity(plan.LIMIT), 0)
        with self.assertRaises(ValueError):
            plan.cut({"a": 1}, plan.capacity(plan.LIMIT))

    def test_steps_run_when_their_parts_are_there_and_a_call_has_time(self):
        steps = [step("one"), step("b", ("a", "b")), step("two"), step("long", expected=25.0), step("spare", spare=True)]
        runs = plan.assign(steps, [{"a"}, {"a", "b"}], work=25)
        self.assertEqual([[one.name for one in call] for call in runs], [["one", "two"], ["b"], ["long"], ["spare"]])

    def test_a_step_without_its_part_is_refused(self):
        with self.assertRaises(ValueError):
            plan.assign([step("c", ("c",))], [{"a"}])

    def test_a_command_is_one_short_line_and_ends_before_the_limit(self):
        for call in plan.calls_of({"a": 100 * plan.MEBIBYTE}, [step(str(number)) for number in range(60)], 20 * plan.MEBIBYTE):
            command = plan.command_of(call)
            self.assertLess(len(command), plan.CHARACTERS)
            self.assertNotIn("\n", command)
            self.assertLess(int(command.split()[-1]), call.limit)
            self.assertLessEqual(call.limit, plan.COMMAND_LIMIT)
            self.assertLessEqual(sum(piece.bytes for piece in call.pieces) + 20 * plan.MEBIBYTE, plan.LIMIT)


class Arrival(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "content").mkdir()
        (self.folder / "content/file").write_bytes(bytes(range(256)) * 200)
        packed = self.folder / "packed"
        subprocess.run(["tar", "-C", self.folder / "content", "-cJf", packed, "."], check=True)
        self.data = packed.read_bytes()
        half = len(self.data) // 2
        self.pieces = [self.data[:half], self.data[half:]]
        self.manifest = {"parts": {"part": {"sha256": hashlib.sha256(self.data).hexdigest(),
                                            "pieces": [{"call": call, "bytes": len(piece)} for call, piece in enumerate(self.pieces, 1)]}}}
        (self.folder / "pieces").mkdir()

    def bring(self, number):
        (self.folder / f"pieces/part.{number}").write_bytes(self.pieces[number - 1])

    def test_a_part_is_unpacked_when_its_last_piece_is_there(self):
        self.bring(1)
        self.assertEqual(arrival.unpack_all(self.manifest, self.folder), {"part": "not here yet: call 2 brings it"})
        self.bring(2)
        self.assertEqual(arrival.unpack_all(self.manifest, self.folder), {"part": "unpacked"})
        self.assertEqual((self.folder / "part/file").read_bytes(), (self.folder / "content/file").read_bytes())
        self.assertEqual(arrival.unpack_all(self.manifest, self.folder), {"part": "is here"})
        self.assertEqual(arrival.parts_here(self.folder), {"part"})

    def test_calls_whose_pieces_are_gone_are_named(self):
        self.bring(2)
        self.assertEqual(arrival.to_repeat(self.manifest, self.folder, 2), [1])
        self.assertEqual(arrival.to_repeat(self.manifest, self.folder, 1), [])

    def test_a_changed_piece_is_refused(self):
        self.pieces[1] = self.pieces[1][:-1] + b"?"
        self.bring(1)
        self.bring(2)
        self.assertIn("failed", arrival.unpack_all(self.manifest, self.folder)["part"])
        self.assertEqual(arrival.parts_here(self.folder), set())


class Runner(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)

    def program(self, text):
        file = self.home / "program.py"
        file.write_text("import json, sys, time\nrows = open(sys.argv[4], 'a')\n"
                        "def say(**row): print(json.dumps(row), file=rows, flush=True)\n" + text)
        return file

    def test_a_step_that_hangs_is_ended_and_keeps_its_rows(self):
        begin = time.monotonic()
        found = runner.run_step(step("hangs"), 1, self.home, self.program("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsay(row=1)\ntime.sleep(60)"))
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual((found["outcome"], found["rows"]), ("stopped", [{"row": 1}]))

    def test_the_step_of_a_call_that_was_killed_is_ended(self):
        program = self.program("say(row=1)\ntime.sleep(60)")
        left = subprocess.Popen([sys.executable, program, "step", "one", "--rows", self.home / "rows"], start_new_session=True)
        self.addCleanup(left.kill)
        until = time.monotonic() + 20
        while not runner.rows_in(self.home / "rows") and time.monotonic() < until:  # its command line is there once it runs
            time.sleep(0.01)
        (self.home / "step.pid").write_text(str(left.pid))
        runner.end_former(self.home)
        self.assertEqual(left.wait(5), -9)

    def test_a_step_that_crashes_has_the_end_of_its_log(self):
        found = runner.run_step(step("crashes"), 5, self.home, self.program("say(row=1)\nsys.exit('broken')"))
        self.assertEqual((found["outcome"], found["rows"], found["log"]), ("failed", [{"row": 1}], ["broken"]))

    def test_a_step_that_ends_has_its_outcome(self):
        found = runner.run_step(step("ends"), 5, self.home, self.program("say(row=1)\nsay(outcome='no device', reason='none')"))
        self.assertEqual((found["outcome"], found["reason"], found["rows"]), ("no device", "none", [{"row": 1}]))

    def test_what_has_ended_is_not_run_again_and_what_was_stopped_is(self):
        for outcome, finished in (("done", True), ("no device", True), ("failed", True), ("not here", True), ("stopped", False), ("waits", False)):
            self.assertEqual(runner.is_finished({"outcome": outcome}), finished)
        self.assertFalse(runner.is_finished(None))

    def test_what_was_stopped_comes_last(self):
        ordered = runner.in_order([step("a"), step("b"), step("c")], {"a": {"outcome": "stopped"}, "b": {"outcome": "waits"}})
        self.assertEqual([one.name for one in ordered], ["b", "c", "a"])

    def test_no_step_begins_without_time(self):
        self.assertEqual([runner.time_for(step("one", expected=10.0), left) for left in (100, 12, 4, -1)], [20.0, 12, 0, 0])


class Page(unittest.TestCase):
    def test_rows_of_the_same_columns_are_one_table(self):
        self.assertEqual(page.table([{"a": 1, "b": "x|y"}, {"a": 0.12345, "b": ["p", "q"]}, {"c": {"d": 2}}]),
                         ["", "| a | b |", "|---|---|", "| 1 | x/y |", "| 0.1235 | p; q |", "", "| c |", "|---|", "| d: 2 |"])

    def test_each_step_is_on_the_page(self):
        found = {"calls": [{"call": 1, "began": "now", "devices": []}], "parts": {"gpux": "unpacked"},
                 "steps": {"one": {"call": 1, "outcome": "no device", "seconds": 1, "reason": "none", "rows": [], "question": "?"}}}
        text = page.page(found)
        for wanted in ("| one | 1 | no device | 1 | none |", "| gpux | unpacked |", "| 1 | now | was ended | no device |  |"):
            self.assertIn(wanted, text)


if __name__ == "__main__":
    unittest.main()
