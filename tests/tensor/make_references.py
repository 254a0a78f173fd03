#!/usr/bin/env python3
"""Makes tests/tensor/references: files written by NumPy, and roundings of decimals worked out in exact fractions.

Needs numpy and ml_dtypes, in an environment of one's own:
    python3 -m venv venv && venv/bin/pip install numpy ml_dtypes && venv/bin/python tests/tensor/make_references.py
"""

import math
import pathlib
import random
from fractions import Fraction

import ml_dtypes
import numpy as np

FOLDER = pathlib.Path(__file__).parent / "references"

SMALL_FLOATS = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float4e2m1": ml_dtypes.float4_e2m1fn,
    "float8e8m0": ml_dtypes.float8_e8m0fnu,
}


def all_values(name):
    """Every bit pattern's value as float64."""
    dtype = np.dtype(SMALL_FLOATS[name])
    unsigned = np.uint16 if dtype.itemsize == 2 else np.uint8
    count = 16 if name == "float4e2m1" else 256**dtype.itemsize
    return np.arange(count).astype(unsigned).view(dtype).astype(np.float64)


def nearest(text, name, magnitudes):
    """The pattern of the value nearest to the decimal, ties to the even pattern, as a string; "refused" without one."""
    number = Fraction(text)
    if name == "float8e8m0" and number <= 0:
        return "refused"
    size = abs(number)
    pattern = min(magnitudes, key=lambda m: (abs(m[0] - size), m[1] % 2))[1]
    largest, largest_pattern = max(magnitudes)
    step = largest - sorted(magnitudes)[-2][0]
    if name == "float8e8m0":
        step = largest  # the next power of two
    if name == "float4e2m1":
        step = Fraction(2)
    excess = (size - largest) / step
    if excess > Fraction(1, 2) or (excess == Fraction(1, 2) and largest_pattern % 2 == 1):
        return "refused"
    sign = 1 << (np.dtype(SMALL_FLOATS[name]).itemsize * 8 - 1)
    if name == "float4e2m1":
        sign = 8
    negative = text.startswith("-") and not (name.endswith("fnuz") and pattern == 0)
    return f"{pattern | sign if negative else pattern:#x}"


def decimal(fraction):
    """A fraction whose denominator is a power of two, all its digits."""
    places = max(0, fraction.denominator.bit_length() - 1)
    digits = str(abs(fraction.numerator) * 5**places)
    digits = digits.rjust(places + 1, "0")
    whole, rest = digits[: len(digits) - places], digits[len(digits) - places :]
    return ("-" if fraction < 0 else "") + whole + ("." + rest if rest else "")


def roundings():
    generator = random.Random(20)
    lines = []
    for name in SMALL_FLOATS:
        values = all_values(name)
        patterns = {p: v for p, v in enumerate(values) if math.isfinite(v) and not math.copysign(1, v) < 0}
        magnitudes = [(Fraction(v), p) for p, v in patterns.items()]
        ordered = sorted(m[0] for m in magnitudes)
        places = [0, len(ordered) // 2, len(ordered) - 2]
        places += [generator.randrange(len(ordered) - 1) for _ in range(6)]
        texts = ["0", "-0", "1", "-1", "1.5", "0.1", "1e-400", "-1e-30", "1e400"]
        for i in places:
            half = decimal((ordered[i] + ordered[i + 1]) / 2)
            point = "" if "." in half else "."
            texts.append(decimal(Fraction(half) - Fraction(half) / 2**80))
        top = ordered[-1]
        step = top - ordered[-2] if name not in ("float8e8m0", "float4e2m1") else top if name == "float8e8m0" else 2
        edge = decimal(top + Fraction(step) / 2)
        texts += [decimal(top), edge, "-" + edge, edge + ("" if "." in edge else ".") + "0" * 40 + "1"]
        texts += [decimal(top + Fraction(step) / 2 - Fraction(1, 2**80))]
        for text in texts:
            # float8e8m0 has no zero, and what a double cannot tell from zero counts as one.
            if len(text) < 300 and not (name == "float8e8m0" and text == "1e-400"):
                lines.append(f"{name}\t{text}\t{nearest(text, name, magnitudes)}")
    (FOLDER / "roundings.tsv").write_text("\n".join(dict.fromkeys(lines)) + "\n")


def arrays():
    grid = np.arange(6).reshape(2, 3)
    for dtype in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"):
        np.save(FOLDER / f"grid_{dtype.replace('?', 'b1')}.npy", (grid % 2 if dtype == "?" else grid).astype(dtype))
    np.save(FOLDER / "grid_big_endian_f4.npy", grid.astype(">f4"))
    np.save(FOLDER / "grid_big_endian_i8.npy", grid.astype(">i8"))
    np.save(FOLDER / "grid_fortran_f4.npy", np.asfortranarray(grid.astype("f4")))
    np.save(FOLDER / "cube_fortran_i2.npy", np.asfortranarray(np.arange(24, dtype="i2").reshape(2, 3, 4)))
    for version in (2, 3):
        with open(FOLDER / f"grid_version_{version}.npy", "wb") as file:
            np.lib.format.write_array(file, grid.astype("f4"), version=(version, 0))
    np.save(FOLDER / "scalar_f4.npy", np.float32(2.5))
    np.save(FOLDER / "empty_f4.npy", np.zeros((0, 3), "f4"))
    np.save(FOLDER / "text_u.npy", np.array([["a", "Grüße"], ["", "日本語 🙂"]]))
    np.save(FOLDER / "text_u_big_endian.npy", np.array(["a", "Grüße"]).astype(">U5"))
    np.save(FOLDER / "text_u_fortran.npy", np.asfortranarray(np.array([["a", "b"], ["c", "d"]])))
    np.save(FOLDER / "text_s.npy", np.array([b"ab", b"\xff", b""]))
    np.save(FOLDER / "raw_bfloat16.npy", np.array([1.0, -2.5, 3.140625], ml_dtypes.bfloat16))
    np.save(FOLDER / "raw_float8e4m3fn.npy", np.array([1.0, -2.5, 448.0], ml_dtypes.float8_e4m3fn))
    np.save(FOLDER / "raw_int4.npy", np.array([-8, -1, 0, 7, 3], ml_dtypes.int4))
    np.save(FOLDER / "raw_uint4.npy", np.array([15, 1, 0], ml_dtypes.uint4))
    np.save(FOLDER / "complex.npy", np.array([1 + 2j], "c8"))
    np.save(FOLDER / "structured.npy", np.zeros(2, [("a", "f4"), ("b", "i4")]))
    np.save(FOLDER / "object.npy", np.array([None, 1], dtype=object), allow_pickle=True)
    np.save(FOLDER / "times.npy", np.array(["2020-01-01"], "datetime64[D]"))
    members = {"x": grid.astype("f4"), "name/with:signs": grid.astype("i8"), "text": np.array(["a", "bc"])}
    np.savez(FOLDER / "stored.npz", **members)
    np.savez_compressed(FOLDER / "deflated.npz", **members)
    np.savez_compressed(
        FOLDER / "small_float_values.npz",
        **{name: all_values(name) for name in SMALL_FLOATS if np.dtype(SMALL_FLOATS[name]).itemsize == 1},
    )


FOLDER.mkdir(exist_ok=True)
roundings()
arrays()
