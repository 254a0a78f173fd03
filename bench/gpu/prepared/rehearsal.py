"""Every call in an empty Debian system without an accelerator, one after the other as on the other machine."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import time

SOFTWARE = ("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1", "VK_ICD_FILENAMES=/opt/vulkan/vk_swiftshader_icd.json")
# What the other machine has beside a bare system, of what `kit run` uses.
PACKAGES = "python3,python3-numpy,libstdc++6"


def base_system(suite):
    """A tar archive of the system, made once."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "gpux-kit"
    file = cache / f"{suite}.tar"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        listed = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(LABEL)", "Created-By: Packages"], capture_output=True, text=True, check=True)
        mirror = os.environ.get("GPUX_DEBIAN_MIRROR") or next(line.split()[0] for line in listed.stdout.splitlines() if line.endswith(" Debian"))
        subprocess.run(["mmdebstrap", "--quiet", "--variant=apt", "--format=tar", f"--include={PACKAGES}", "--aptopt=Acquire::Check-Valid-Until \"false\"",
                        "--aptopt=Acquire::Check-Date \"false\"", suite, f"{file}.part", mirror], check=True)
        pathlib.Path(f"{file}.part").rename(file)
    return file


def copy_tree(root, target):
    """What travels with each call: the files of git, and those that git does not ignore."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, check=True)
    for name in filter(None, listed.stdout.split(b"\0")):
        source, copy = root / os.fsdecode(name), target / os.fsdecode(name)
        if os.path.lexists(source):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)


def outcomes(document, number):
    counts = {}
    for about in document["steps"].values():
        if about["call"] == number:
            counts[about["outcome"]] = counts.get(about["outcome"], 0) + 1
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))


def rehearse(root, kit, calls, tree, options, say):
    system = kit / "rehearsal"
    shutil.rmtree(system, ignore_errors=True)
    system.mkdir()
    subprocess.run(["tar", "-C", system, "-xf", base_system(options.suite)], check=True)
    copy_tree(root, system / "work")
    variables = ["GPU_KIT_HOME=/var/tmp/gpux-kit"]
    if options.software:
        shutil.copytree(root / ".deps/vulkan", system / "opt/vulkan", symlinks=True)
        variables += SOFTWARE
    pages = kit / ("pages-software" if options.software else "pages")
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir()
    rows, begin = [], time.monotonic()
    only = {int(word) for word in options.only.split(",")} if options.only else {call.number for call in calls}
    for call in calls:
        if call.number not in only:
            continue
        out = system / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        if call.pieces:
            shutil.copytree(kit / f"call-{call.number}", system / f"work/build/gpu-kit/call-{call.number}", dirs_exist_ok=True)
        say(f"call {call.number}: at most {call.limit} s …")
        command = [root / "scripts/packaging/try-in-chroot", "--root", system, *(word for one in [*variables, "OUT=/out"] for word in ("--env", one)), "timeout", "-k", "5",
                   str(call.limit), "sh", "-c", f"cd /work && exec python3 bench/gpu/kit run {call.number} --seconds {call.limit - 15}"]
        started = time.monotonic()
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        seconds = time.monotonic() - started
        (pages / f"call-{call.number}.log").write_text(done.stdout + done.stderr)
        for file in out.iterdir():
            shutil.copy(file, pages / file.name)
        page, document = pages / f"gpux-call-{call.number}.md", pages / f"gpux-call-{call.number}.json"
        found = json.loads(document.read_text()) if document.exists() else {"steps": {}}
        rows.append({"call": call.number, "pieces": ", ".join(f"{piece.part}.{piece.number}" for piece in call.pieces) or "none",
                     "bytes": sum(piece.bytes for piece in call.pieces), "with the tree": sum(piece.bytes for piece in call.pieces) + tree,
                     "exit": done.returncode, "seconds": round(seconds, 1), "limit": call.limit, "outcomes": outcomes(found, call.number),
                     "page": f"{page.stat().st_size} bytes, {len(re.findall('no device', page.read_text()))} times 'no device'" if page.exists() else "MISSING"})
    shutil.rmtree(system, ignore_errors=True)
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns), *("| " + " | ".join(f"{row[key]:,}" if isinstance(row[key], int) else str(row[key]) for key in columns) + " |" for row in rows)]
    lines += ["", f"{time.monotonic() - begin:.0f} s in all"]
    (pages / "table.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
