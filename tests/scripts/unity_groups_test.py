"""Which sources are compiled together: those whose names do not meet. Standard library only."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "cmake" / "unity_groups.py"


def source(inner, outer="", includes=()):
    lines = "".join(f'#include "{name}"\n' for name in includes)
    return f"{lines}namespace gpux::m {{\nnamespace {{\n{inner}\n}}\n{outer}\n}}\n"


def groups(files, module="m"):
    """The groups of the sources of a module, in a tree with these files."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "include").mkdir()
        for name, text in files.items():
            path = root / "src" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        output = root / "groups.cmake"
        subprocess.run([sys.executable, str(SCRIPT), "8", str(output), str(root)], check=True)
        pairs = re.search(rf'set\(gpux_unity_{module} "(.*)"\)', output.read_text()).group(1)
        return dict(pair.split("=") for pair in pairs.split(";"))


class Groups(unittest.TestCase):
    def expect(self, together, first, second, more=None):
        found = groups({"m/a.cpp": first, "m/b.cpp": second, **(more or {})})
        self.assertEqual(found["a.cpp"] == found["b.cpp"], together, (first, second))

    def test_sources_without_common_names_are_together(self):
        self.expect(True, source("int one() { return 1; }"), source("constexpr int two = 2;"))

    def test_equal_names_in_unnamed_namespaces_are_apart(self):
        for first in ("int f(int x) { return x; }", "constexpr int f = 1;", "struct f {};", "template <typename T> T f(T);"):
            self.expect(False, source(first), source("std::string f() { return {}; }"))

    def test_template_arguments_are_not_declared(self):
        self.expect(True, source("constexpr std::array<Field, 2> one{};"), source("constexpr std::array<Field, 3> two{};"))
        self.expect(False, source("constexpr std::array<Field, 2> one{};"), source("std::map<int, Field> one;"))

    def test_a_name_that_the_other_uses_is_apart(self):
        self.expect(False, source("void log() {}"), source("", "void g() { log(); }"))
        # In texts and comments it means nothing.
        self.expect(True, source("void log() {}"), source("", 'void g() { puts("log"); }  // log()'))

    def test_a_name_that_a_header_of_the_other_declares_is_apart(self):
        header = "namespace gpux::m { class Weights; }\n"
        self.expect(False, source("class Weights {};"), source("", "void g();", ["m/w.h"]), {"m/w.h": header})
        deep = {"m/w.h": '#include "m/x.h"\n', "m/x.h": header}
        self.expect(False, source("class Weights {};"), source("", "void g();", ["m/w.h"]), deep)

    def test_aliases_have_to_be_the_same(self):
        first = source("using Json = nlohmann::json;")
        self.expect(True, first, source("using Json = nlohmann::json;"))
        self.expect(False, first, source("using Json = nlohmann::ordered_json;"))
        self.expect(False, first, source("", "void g(Json);"))
        self.expect(True, source("namespace fs = std::filesystem;"), source("namespace fs = std::filesystem;"))

    def test_a_name_that_hides_that_of_an_outer_namespace_is_apart(self):
        outer = "namespace gpux { std::string split(int); }\n"
        inner = "namespace gpux::m { std::string split(char); }\n"
        other = "namespace gpux::n { std::string split(char); }\n"
        calls = source("", "void g() { split(1); }", ["m/outer.h"])
        self.expect(False, source("", "void h();", ["m/inner.h"]), calls, {"m/outer.h": outer, "m/inner.h": inner})
        self.expect(True, source("", "void h();", ["m/inner.h"]), calls, {"m/outer.h": outer, "m/inner.h": other})

    def test_sources_that_open_a_namespace_or_enumeration_are_with_their_like(self):
        opened = "using enum Kind;\n" + source("int one();")
        self.expect(False, opened, source("int two();"))
        self.expect(True, opened, "using enum Kind;\n" + source("int two();"))

    def test_macros_of_one_are_not_words_of_the_other(self):
        self.expect(False, "#define LIMIT 1\n" + source("int one();"), source("", "int LIMIT();"))

    def test_a_folder_with_its_own_build_file_is_a_module(self):
        files = {"m/a.cpp": source("int a();"), "m/part/b.cpp": source("int b();"), "m/rest/c.cpp": source("int c();"),
                 "m/part/CMakeLists.txt": ""}
        self.assertEqual(set(groups(files)), {"a.cpp", "rest/c.cpp"})
        self.assertEqual(set(groups(files, "m_part")), {"b.cpp"})

    def test_the_output_is_written_only_where_it_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "include").mkdir()
            (root / "src" / "m").mkdir(parents=True)
            (root / "src" / "m" / "a.cpp").write_text(source("int a();"))
            output = root / "groups.cmake"
            call = [sys.executable, str(SCRIPT), "8", str(output), str(root)]
            subprocess.run(call, check=True)
            before = output.stat().st_mtime_ns
            subprocess.run(call, check=True)
            self.assertEqual(output.stat().st_mtime_ns, before)


if __name__ == "__main__":
    unittest.main()
