#!/usr/bin/env python3
"""Writes pictures/ and references.npz: 50 pictures of all kinds, and what Pillow and torchvision make of them. And
animation.webp.

    python3 -m venv build/pictures
    build/pictures/bin/pip install numpy==2.4.6 pillow==13.0.0 torch==2.15.0 torchvision==0.29.2
    build/pictures/bin/python tests/image/make_references.py

references.npz holds for each picture, [height, width, 3] of uint8:
  NAME/plain    turned upright and converted to RGB by Pillow, where the picture is small
  NAME/stretch  torchvision's resize to STRETCH, bilinear
  NAME/crop     torchvision's resize of the shorter side to SHORTEST, bicubic, and center_crop to CROP
and for some
  NAME/gray     Pillow's gray, resized to STRETCH
  NAME/alpha    Pillow's RGBA
  NAME/normal   NAME/crop as torchvision's normalize makes it with ImageNet's mean and std, [3, height, width] of float32
"""

import io
import pathlib
import struct
import zlib

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image, ImageDraw, ImageOps
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F

HERE = pathlib.Path(__file__).resolve().parent
STRETCH = [33, 47]
SHORTEST = 40
CROP = [36, 29]
LIMIT_PLAIN = 3500  # pixels
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
ORIENTATION = 0x0112


def scene(width, height, seed=0):
    """Smooth and noisy parts, thin lines, hard edges: [height, width, 4] of uint8."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    u, v = (x + 0.5) / width, (y + 0.5) / height
    colors = np.stack([u, v, 0.5 + 0.5 * np.sin(7 * u + 5 * v + seed)], -1) * 255
    image = Image.fromarray(colors.astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(6):
        a, b = rng.random(2), rng.random(2)
        box = [min(a[0], b[0]) * width, min(a[1], b[1]) * height, max(a[0], b[0]) * width, max(a[1], b[1]) * height]
        color = tuple(int(c) for c in rng.integers(0, 256, 3))
        if rng.random() < 0.5:
            draw.ellipse(box, fill=color)
        else:
            draw.line(box, fill=color, width=1)
    pixels = np.array(image)
    noisy = (u > 0.7) & (v > 0.6)
    pixels[noisy] = rng.integers(0, 256, (int(noisy.sum()), 3))
    pixels[(x % 4 < 2) & (u < 0.25) & (v > 0.75)] = 255  # black and white stripes overshoot
    pixels[(x % 4 >= 2) & (u < 0.25) & (v > 0.75)] = 0
    alpha = (255 * np.clip(1.5 - 2 * np.hypot(u - 0.5, v - 0.5), 0, 1)).astype(np.uint8)
    return np.dstack([pixels, alpha])


def rgb(width, height, seed=0):
    return Image.fromarray(scene(width, height, seed)[..., :3])


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def jpeg(image, **options):
    return saved(image, "JPEG", **{"quality": 85, **options})


def exif(orientation, order="<"):
    head = b"II*\0" if order == "<" else b"MM\0*"
    value = struct.pack(order + "HHIHH", ORIENTATION, 3, 1, orientation, 0)
    return b"Exif\0\0" + head + struct.pack(order + "IH", 8, 1) + value + bytes(4)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(samples, depth, color, before=b"", interlaced=False, behind=b""):
    """A PNG of samples [height, width, channels], with every depth and with Adam7, which Pillow does not write."""
    height, width, channels = samples.shape
    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    lines = b""
    for number, (x, y, dx, dy) in enumerate(passes):
        for row in samples[y::dy, x::dx]:
            if row.shape[0] == 0:
                continue
            flat = row.reshape(-1)
            if depth == 16:
                packed = np.frombuffer(flat.astype(">u2").tobytes(), np.uint8)
            elif depth == 8:
                packed = flat.astype(np.uint8)
            else:
                bits = (flat[:, None] >> np.arange(depth - 1, -1, -1)) & 1
                packed = np.packbits(bits.astype(np.uint8).reshape(-1))
            if number % 2 == 0:
                lines += b"\0" + packed.tobytes()
            else:  # the filter Sub, for a change
                step = max(1, channels * depth // 8)
                lines += b"\1" + (packed - np.concatenate([np.zeros(step, np.uint8), packed])[: len(packed)]).tobytes()
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + chunk(b"IDAT", zlib.compress(lines, 9)) + behind +
            chunk(b"IEND", b""))  # fmt: skip


def pictures():
    """Name to the file's bytes."""
    files = {}
    photo = rgb(120, 90)
    for name, sampling in [("444", 0), ("422", 1), ("420", 2)]:
        files[f"jpeg-{name}.jpg"] = jpeg(photo, subsampling=sampling)
    files["jpeg-420-odd.jpg"] = jpeg(rgb(101, 67, 1), subsampling=2)
    files["jpeg-progressive-420.jpg"] = jpeg(rgb(97, 64, 2), subsampling=2, progressive=True)
    files["jpeg-progressive-444.jpg"] = jpeg(rgb(64, 97, 3), subsampling=0, progressive=True)
    files["jpeg-gray.jpg"] = jpeg(rgb(90, 70, 4).convert("L"))
    files["jpeg-gray-progressive.jpg"] = jpeg(rgb(57, 43, 5).convert("L"), progressive=True)
    files["jpeg-cmyk.jpg"] = jpeg(rgb(60, 50, 6).convert("CMYK"))
    files["jpeg-cmyk-black.jpg"] = jpeg(Image.merge("CMYK", [*rgb(50, 60, 7).split(), rgb(50, 60, 8).split()[0]]))
    files["jpeg-rgb.jpg"] = jpeg(rgb(55, 44, 9), keep_rgb=True)
    files["jpeg-restarts.jpg"] = jpeg(rgb(80, 60, 10), restart_marker_rows=1)
    files["jpeg-rough.jpg"] = jpeg(rgb(160, 120, 11), quality=5)
    files["jpeg-fine.jpg"] = jpeg(rgb(48, 36, 12), quality=100, subsampling=0)
    files["jpeg-pixel.jpg"] = jpeg(rgb(1, 1, 13))
    files["jpeg-wide.jpg"] = jpeg(rgb(1500, 3, 14), quality=70)
    files["jpeg-tall.jpg"] = jpeg(rgb(3, 1500, 15), quality=70)
    files["jpeg-large.jpg"] = jpeg(rgb(1000, 750, 16), quality=30)
    for orientation in range(1, 9):
        order = "<" if orientation % 2 else ">"
        files[f"jpeg-exif-{orientation}.jpg"] = jpeg(rgb(61, 40, 17), exif=exif(orientation, order))

    colors, alpha = scene(50, 40, 18)[..., :3], scene(50, 40, 18)[..., 3:]
    gray = colors[..., :1]
    files["png-rgb.png"] = saved(rgb(110, 80, 19), "PNG")
    files["png-gray.png"] = saved(rgb(66, 44, 20).convert("L"), "PNG")
    for depth in [1, 2, 4]:
        files[f"png-gray-{depth}.png"] = png(gray >> (8 - depth), depth, 0)
    files["png-gray-16.png"] = png(gray.astype(np.uint16) * 257 ^ 0x9E, 16, 0)
    files["png-gray-alpha.png"] = png(np.dstack([gray, alpha]), 8, 4)
    files["png-rgb-16.png"] = png(colors.astype(np.uint16) * 256 + 0xC3, 16, 2)
    files["png-rgba.png"] = png(np.dstack([colors, alpha]), 8, 6)
    files["png-rgba-16.png"] = png(np.dstack([colors, alpha]).astype(np.uint16) * 257, 16, 6)
    files["png-palette.png"] = saved(rgb(70, 50, 21).quantize(200), "PNG")
    files["png-palette-2.png"] = saved(rgb(39, 50, 22).quantize(4), "PNG", bits=2)
    files["png-palette-alpha.png"] = saved(rgb(50, 39, 23).quantize(16), "PNG", transparency=bytes(range(0, 256, 16)))
    files["png-color-key.png"] = png(colors, 8, 2, before=chunk(b"tRNS", struct.pack(">HHH", *map(int, colors[0, 0]))))
    files["png-gamma.png"] = png(colors, 8, 2, before=chunk(b"gAMA", struct.pack(">I", 100000)))
    files["png-interlaced.png"] = png(colors, 8, 2, interlaced=True)
    files["png-interlaced-gray-1.png"] = png(scene(13, 7, 24)[..., :1] >> 7, 1, 0, interlaced=True)
    files["png-exif-6.png"] = png(colors, 8, 2, before=chunk(b"eXIf", exif(6)[6:]))
    files["png-pixel.png"] = png(colors[:1, :1], 8, 2)
    files["png-wide.png"] = png(scene(2000, 2, 25)[..., :3], 8, 2)

    files["webp-lossy.webp"] = saved(rgb(120, 90, 26), "WEBP", quality=70)
    files["webp-lossless.webp"] = saved(rgb(61, 47, 27), "WEBP", lossless=True)
    files["webp-alpha.webp"] = saved(Image.fromarray(scene(60, 50, 28)), "WEBP", quality=70)
    files["webp-exif-8.webp"] = saved(rgb(60, 33, 29), "WEBP", quality=80, exif=exif(8)[6:])
    return files


def animation():
    """A canvas of 4x3, a red frame of 2x2 at (2, 0), a blue one over all: Pillow would make the first as large as the canvas."""

    def part(kind, data):
        return kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)

    def three(*numbers):
        return b"".join(struct.pack("<I", number)[:3] for number in numbers)

    def frame(x, y, width, height, color):
        still = saved(Image.new("RGB", (width, height), color), "WEBP", lossless=True)
        return part(b"ANMF", three(x // 2, y // 2, width - 1, height - 1, 100) + b"\0" + still[12:])

    body = part(b"VP8X", struct.pack("<I", 2) + three(3, 2)) + part(b"ANIM", bytes(6))
    body += frame(2, 0, 2, 2, "red") + frame(0, 0, 4, 3, "blue")
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


def opened(file):
    """Upright; 16-bit gray by its upper 8 bits, which Pillow's convert() would cut off at 255 instead."""
    image = Image.open(io.BytesIO(file))
    if image.mode.startswith("I"):
        image = Image.fromarray((np.array(image) >> 8).astype(np.uint8))
    return ImageOps.exif_transpose(image)


def resized(image, size, mode):
    return F.resize(F.pil_to_tensor(image), size, interpolation=mode, antialias=True)


def rows(tensor):
    return tensor.permute(1, 2, 0).contiguous().numpy()


def references(name, file):
    image = opened(file)
    colors = image.convert("RGB")
    answers = {}
    if colors.width * colors.height <= LIMIT_PLAIN:
        answers["plain"] = np.array(colors)
    answers["stretch"] = rows(resized(colors, STRETCH, InterpolationMode.BILINEAR))
    crop = F.center_crop(resized(colors, [SHORTEST], InterpolationMode.BICUBIC), CROP)
    answers["crop"] = rows(crop)
    if name in ["jpeg-420.jpg", "jpeg-gray.jpg", "png-gray-16.png", "png-palette.png", "webp-lossy.webp"]:
        answers["gray"] = rows(resized(image.convert("L"), STRETCH, InterpolationMode.BILINEAR))
    if name in ["png-rgba.png", "png-gray-alpha.png", "png-palette-alpha.png", "png-color-key.png", "png-exif-6.png",
                "webp-alpha.webp", "jpeg-exif-5.jpg"]:  # fmt: skip
        answers["alpha"] = np.array(image.convert("RGBA"))
    if name in ["jpeg-444.jpg", "webp-lossless.webp"]:
        answers["normal"] = F.normalize(F.to_dtype(crop, torch.float32, scale=True), MEAN, STD).numpy()
    return {f"{name}/{kind}": answer for kind, answer in answers.items()}


def main():
    folder = HERE / "pictures"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    everything = {}
    files = pictures()
    for name, file in sorted(files.items()):
        (folder / name).write_bytes(file)
        everything |= references(name, file)
    (HERE / "animation.webp").write_bytes(animation())
    np.savez_compressed(HERE / "references.npz", **everything)
    size = sum(map(len, files.values())) + (HERE / "references.npz").stat().st_size
    print(f"{len(files)} pictures, {len(everything)} references, {size} bytes")
    print(f"numpy {np.__version__}, Pillow {PIL.__version__}, torch {torch.__version__}, torchvision"
          f" {torchvision.__version__}; {torch.backends.cpu.get_cpu_capability()}")  # fmt: skip


if __name__ == "__main__":
    main()
