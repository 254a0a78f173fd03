"""gpux as the scripts run it that compare it with transformers."""

import itertools
import pathlib
import subprocess


class Program:
    """Runs commands of gpux. A subclass may put the models elsewhere."""

    def __init__(self, path, environment=None):
        self.path, self.environment = str(path), environment
        self.messages = ""  # of the last command
        self.numbers = itertools.count(1)

    def run(self, *words):
        """Standard output. RuntimeError with the message, or the signal that ended it."""
        command = [self.path, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, stdin=subprocess.DEVNULL)
        self.messages = done.stderr
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise RuntimeError(f"gpux {words[0]} ended with {done.returncode}: {lines[-1]}")
        return done.stdout

    def imported(self, folder):
        """What commands call the model of this folder."""
        made = pathlib.Path(f"{folder}-onnx-{next(self.numbers)}")
        self.run("import", folder, "-o", made)
        return made
