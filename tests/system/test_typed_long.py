# release build only
"""Every command in a block of README, the questions and the guides is typed as it stands there, page by page, but for
those of NOT_TYPED; and output that is said to be always the same is."""
import os
import pathlib
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import typed_kit  # noqa: E402

try:
    import h5py  # noqa: F401
    import numpy  # noqa: F401
    import PIL  # noqa: F401
    import sklearn  # noqa: F401
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

LARDER = os.path.abspath(os.environ["LARDER"])
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# What a page takes for granted: commands before its first.
BEFORE = {
    "docs/guide/measure.md": ["larder train photos/ --recipe rotate --out runs/rotate-1"],
}
# What cannot be typed everywhere.
WANTS = [
    (r"redis", lambda: shutil.which("redis-server"), "redis-server"),
    (r"/usr/share/datasets/fashion-mnist", lambda: os.path.isdir("/usr/share/datasets/fashion-mnist"), "dataset-fashion-mnist"),
    (r"^python3 ", lambda: has_torchvision(), "torchvision"),
]


def has_torchvision():
    try:
        import torchvision  # noqa: F401
    except ImportError:
        return False
    return True


def missing(command):
    return next((what for pattern, there, what in WANTS if re.search(pattern, command) and not there()), None)


def check_shown(command, shown, out):
    """What is shown of commands whose output is the same everywhere is in what they said, line by line."""
    if re.match(r"python3 |larder svm-", command):
        for line in shown:
            assert line == "…" or line in out.split("\n"), f"{command}: shown, but not said: {line}\n{out}"


def type_page(page, blocks, folder):
    # Pages whose commands show that nothing is read the second time want the epochs that they name.
    place = typed_kit.Place(folder, ROOT, LARDER, epochs=1)
    count = 0
    try:
        if page == "docs/questions/train-an-svm.md":
            typed_kit.make_digits(folder)
        if page == "docs/guide/extend.md":
            typed_kit.copy_examples(ROOT, folder)
        if page in BEFORE:
            place.type(BEFORE[page])
        script = None
        for block in blocks:
            if block.info == "python":
                script = "\n".join(block.lines)
            if not block.is_typed():
                continue
            commands = [(c, shown) for c, shown in block.commands() if not typed_kit.why_not(c)]
            for command, _ in list(commands):
                lacks = missing(command)
                if lacks:
                    print(f"not typed, no {lacks}: {page}:{block.line}: {command}")
                    commands = [(c, shown) for c, shown in commands if c != command]
                name = re.match(r"python3 (\w+\.py)$", command)
                if name:
                    (folder / name[1]).write_text(script)
            if not commands:
                continue
            try:
                out = place.type([c for c, _ in commands])
            except AssertionError as e:
                raise AssertionError(f"{page}:{block.line}: {e}") from None
            for command, shown in commands:
                check_shown(command, shown, out)
            count += len(commands)
    finally:
        place.close()
    return count


def main():
    only = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="larder-typed-") as name:
        data = pathlib.Path(name) / "data"
        data.mkdir()
        typed_kit.make_pictures(data)
        typed_kit.make_tables(data)
        typed_kit.make_arrays(data)
        for page, blocks in typed_kit.pages(ROOT).items():
            if only and page not in only:
                continue
            folder = pathlib.Path(name) / page.replace("/", "-")
            shutil.copytree(data, folder)
            count = type_page(page, blocks, folder)
            print(f"ok {page}: {count} typed", flush=True)
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
