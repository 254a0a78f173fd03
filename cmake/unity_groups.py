#!/usr/bin/env python3
"""Which sources of a folder are compiled together: cmake/unity_groups.py SIZE OUTPUT ROOT

Writes a CMake file that sets gpux_unity_NAME for each module of ROOT: SOURCE=GROUP, separated by semicolons. A module is a
folder of src, or a folder below that with a CMakeLists.txt of its own: that of src/server/http is server_http. So are
folders of tests: that of tests/server is tests_server. Two sources are in one group only if neither declares a name in an
unnamed namespace that the other declares or calls, or that one of its headers declares: so they mean together what they
mean alone. Groups have about SIZE sources. Standard library only."""
import collections
import pathlib
import re
import sys

TEXTS = re.compile(
    r'R"(\w*)\((?:.|\n)*?\)\1"|//[^\n]*|/\*(?:.|\n)*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\''
)
DIRECTIVES = re.compile(r"^[ \t]*#[^\n]*(?:\\\n[^\n]*)*", re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]\w*")
# Of no object and no namespace that is named: looked up where it stands.
CALL = re.compile(r"(?<![\w.:>])([A-Za-z_]\w*)\s*(?:<[^<>;{}]*>\s*)?\(")


def without_template_arguments(piece):
    """std::array<Field, 2> table: what stands between the brackets is declared elsewhere."""
    shorter = re.sub(r"<[^<>]*>", "", piece)
    return piece if shorter == piece else without_template_arguments(shorter)


def declared(piece):
    """What a declaration declares: its names and its aliases."""
    alias = re.match(r"(?:using|namespace)\s+(\w+)\s*=\s*(.*)$", piece, re.DOTALL)
    if alias:
        return set(), {alias.group(1): re.sub(r"\s+", "", alias.group(2))}
    if piece.startswith("using "):
        return set(), {}
    macro = re.match(r"([A-Z][A-Z0-9_]+)\s*\(\s*(\w*)", piece)
    if macro:  # GoogleTest's: MATCHER(Name, …) declares a name, and TEST(Suite, Name) what is of no interest here
        return ({macro.group(2)} if macro.group(1).startswith("MATCHER") else set()), {}
    kind = re.match(r"(?:template\s*<.*?>\s*)?(?:struct|class|union|enum(?:\s+class)?)\s+(\w+)", piece, re.DOTALL)
    if kind:
        return {kind.group(1)}, {}
    before = without_template_arguments(piece.split("=")[0])
    called = re.search(r"([A-Za-z_][\w:]*)\s*\(", before)
    if called:
        return (set() if "::" in called.group(1) else {called.group(1)}), {}
    found = (re.search(r"(\w+)\s*(?:\[.*)?$", part.strip(), re.DOTALL) for part in before.split(","))
    return {name.group(1) for name in found if name}, {}


class File:
    """A source or header: what it declares in unnamed and in named namespaces, its aliases, what it calls, and all its words."""

    def __init__(self, path):
        self.path = path
        text = path.read_text(encoding="utf-8")
        self.includes = re.findall(r'^#include "([^"]+)"', text, re.MULTILINE)
        self.macros = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.MULTILINE))
        code = DIRECTIVES.sub("", TEXTS.sub(" ", text))
        self.words = set(WORD.findall(code))
        self.called = set(CALL.findall(code))
        self.names, self.public_names, self.aliases = set(), set(), {}  # public ones: with their namespace
        self.opened = set(re.findall(r"^using (?:enum|namespace) [^;]+", code, re.MULTILINE))
        self.namespaces = set()
        scopes, begin = [("named", "")], 0
        for mark in re.finditer(r"[{};]", code):
            piece, begin = code[begin : mark.start()].strip(), mark.end()
            kind, namespace = scopes[-1]
            if mark.group() == "}":
                if len(scopes) > 1:
                    scopes.pop()
                continue
            if mark.group() == "{":
                named = re.search(r"\bnamespace\s+([\w:]+)$", piece)
                is_unnamed = re.search(r"(?:^|\s)namespace$", piece)
                if named:
                    self.namespaces.add(f"{namespace}::{named.group(1)}")
                    scopes.append(("named", f"{namespace}::{named.group(1)}"))
                else:
                    scopes.append(("unnamed" if is_unnamed else "other", namespace))
                if named or is_unnamed:
                    continue
            if kind == "other":
                continue
            names, aliases = declared(piece)
            if kind == "unnamed":
                self.names |= names
                self.aliases.update(aliases)
            else:
                self.public_names |= {(name, namespace) for name in names | set(aliases)}


class Source(File):
    """A source with what its headers declare."""

    def __init__(self, path, headers, names_of_several):
        super().__init__(path)
        public_names, left, seen = set(self.public_names), list(self.includes), set()
        while left:
            name = left.pop()
            if name in seen or name not in headers:
                continue
            seen.add(name)
            public_names |= headers[name].public_names
            left += headers[name].includes
        self.known = self.names | self.called | {name for name, _ in public_names}
        # Of these, one hides another.
        self.hiding = {one for one in public_names if one[0] in names_of_several}

    def is_changed_by(self, other):
        """Whether a word could mean what only the other's headers declare, in a namespace where it is looked up."""
        return any(
            name in self.words and any(f"{own}::".startswith(f"{namespace}::") for own in self.namespaces)
            for name, namespace in other.hiding - self.hiding
        )

    def goes_with(self, other):
        if self.opened != other.opened:
            return False
        if self.names & other.known or other.names & self.known:
            return False
        if self.is_changed_by(other) or other.is_changed_by(self):
            return False
        if self.macros & (other.words | other.macros) or other.macros & self.words:
            return False
        return self.aliases_go_with(other) and other.aliases_go_with(self)

    def aliases_go_with(self, other):
        return all(
            other.aliases[name] == target if name in other.aliases else name not in other.words | other.known
            for name, target in self.aliases.items()
        )


def groups_of(sources, size):
    foes = {one.path: sum(not one.goes_with(other) for other in sources if other is not one) for one in sources}
    groups = [[] for _ in range(max(1, -(-len(sources) // size)))]
    for source in sorted(sources, key=lambda one: (-foes[one.path], one.path)):
        fitting = [group for group in groups if all(source.goes_with(other) for other in group)]
        if fitting:
            min(fitting, key=len).append(source)
        else:
            groups.append([source])
    return [group for group in groups if group]


def headers_of(root):
    """The headers of all modules and tests, by the names under which they are included."""
    headers = {}
    for top in (root / "src", root / "include", root / "tests"):
        for path in sorted(top.rglob("*.h")):
            headers[str(path.relative_to(top))] = File(path)
    return headers


def sources_of_modules(top):
    """The folder of each module with its sources."""
    folders = {path for path in top.glob("*") if path.is_dir()} | {path.parent for path in top.rglob("CMakeLists.txt")}
    modules = {folder: [] for folder in sorted(folders)}
    for path in sorted(top.rglob("*.cpp")):
        nearest = next((folder for folder in path.parents if folder in modules), None)
        if nearest is not None:
            modules[nearest].append(path)
    return modules.items()


def main():
    size, output, root = int(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    headers, lines = headers_of(root), []
    public_names = {one for header in headers.values() for one in header.public_names}
    counts = collections.Counter(name for name, _ in public_names)
    names_of_several = {name for name, count in counts.items() if count > 1}
    for folder, paths in [*sources_of_modules(root / "src"), *sources_of_modules(root / "tests")]:
        sources = [Source(path, headers, names_of_several) for path in paths]
        groups = groups_of(sources, size)
        pairs = [f"{one.path.relative_to(folder)}={number}" for number, group in enumerate(groups) for one in group]
        name = "_".join(folder.relative_to(root).parts).removeprefix("src_")
        lines.append(f'set(gpux_unity_{name} "{";".join(sorted(pairs))}")\n')
    content = "".join(lines)
    if not output.exists() or output.read_text() != content:
        output.write_text(content)


if __name__ == "__main__":
    main()
