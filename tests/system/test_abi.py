# release build only
"""What programs rely on changes only with a note (tools/abi.py), and is what the library exports."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LARDER_BUILD", ROOT / "build"))
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))
import abi  # noqa: E402

HEADER = """
#define LARDER_VERSION "9.9.9"
#define LARDER_END 2
typedef struct larder_thing larder_thing; /* opaque */
typedef enum larder_mode { LARDER_ONE, LARDER_TWO } larder_mode;
typedef struct larder_conf {
    size_t size;
    int (*pin)(void *, size_t n), a; /* a comment; with a brace } */
} larder_conf;
typedef struct larder_shape {
    uint32_t h, w, c;
    enum { LARDER_IN = 1, LARDER_OUT } use;
} larder_shape;
int larder_open(larder_thing **out,
                const larder_conf *);
static inline int larder_quick(void) {
    return 1;
}
"""


def changes(old, new, header="larder.h"):
    before = abi.declarations(header, HEADER)
    now = abi.declarations(header, HEADER.replace(old, new))
    return [(name, breaks) for name, _, breaks in abi.differences(before, now)]


class Abi(unittest.TestCase):
    def test_what_is_found(self):
        found = abi.declarations("larder.h", HEADER)
        self.assertEqual(found["larder.h struct larder_conf"], ["size_t size", "int (*pin)(void *, size_t n)", "a"])
        self.assertEqual(found["larder.h function larder_open"], ["int larder_open(larder_thing **out, const larder_conf *)"])
        self.assertEqual(len(found), 6, list(found))

    def test_what_may_be(self):
        self.assertEqual(changes("/* opaque */", ""), [])
        self.assertEqual(changes("    return 1;", "    return 2;"), [])
        self.assertEqual(changes("} larder_conf;", "    double more;\n} larder_conf;"), [("larder.h struct larder_conf", False)])
        self.assertEqual(changes("LARDER_TWO", "LARDER_TWO, LARDER_THREE"), [("larder.h enum larder_mode", False)])
        self.assertEqual(changes("#define LARDER_END 2", "#define LARDER_END 2\nvoid larder_new(int);"),
                         [("larder.h function larder_new", False)])

    def test_what_breaks(self):
        for old, new, name in (
            ("int (*pin)", "long b; int (*pin)", "struct larder_conf"),
            ("n), a;", "n);", "struct larder_conf"),
            ("h, w, c;", "h, w, c, d;", "struct larder_shape"),
            ("int larder_open", "void larder_open", "function larder_open"),
            ("LARDER_ONE, LARDER_TWO", "LARDER_TWO, LARDER_ONE", "enum larder_mode"),
            ("#define LARDER_END 2", "#define LARDER_END 3", "constant LARDER_END"),
        ):
            self.assertEqual(changes(old, new), [(f"larder.h {name}", True)], new)
        self.assertIn(("larder.h function larder_open", True), changes("larder_open", "larder_unlock"))

    def test_structs_have_their_size(self):
        self.assertEqual(list(abi.sizeless(abi.declarations("larder.h", HEADER))), [])
        unfit = list(abi.sizeless(abi.declarations("larder.h", HEADER.replace("size_t size;", ""))))
        self.assertIn("larder_conf does not begin with size_t size", " ".join(unfit))

    def test_the_file_is_read_as_written(self):
        found = abi.declarations("larder.h", HEADER)
        self.assertEqual(abi.parsed(abi.written(found, ["0.1.0: a note"])), (found, ["0.1.0: a note"]))

    def test_today(self):
        done = subprocess.run([sys.executable, ROOT / "tools" / "abi.py"], stdout=subprocess.PIPE, encoding="utf-8")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_library_exports_it(self):
        names = subprocess.check_output(["nm", "-D", "--defined-only", BUILD / "liblarder.so"], encoding="utf-8")
        declared = {name.split(" ")[2] for name in abi.today() if " function " in name}
        declared.remove("larder_plugin_load")  # a plug-in has it
        self.assertEqual({line.split()[-1] for line in names.splitlines()}, declared)


if __name__ == "__main__":
    unittest.main()
