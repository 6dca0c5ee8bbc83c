# release build only
"""Every block of README, the questions and the guides is known to be typed (test_typed_long does) or shown; what is not
typed has a reason, and no reason is left over; options that pages name in passing are there."""
import os
import pathlib
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import typed_kit  # noqa: E402

LARDER = os.path.abspath(os.environ["LARDER"])
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def check_blocks(pages):
    """What is wrong with the blocks, and how many commands are typed and not."""
    wrong, typed, left = [], 0, set()
    for page, blocks in pages.items():
        for block in blocks:
            if not block.is_typed():
                if not block.is_shown():
                    wrong.append(f"{page}:{block.line}: neither typed nor shown (```text): {block.lines[0]}")
                continue
            for command, _ in block.commands():
                why = typed_kit.why_not(command)
                typed += why is None
                left.add(why)
    wrong += [f"NOT_TYPED: nothing is left out because it {why}" for _, why in typed_kit.NOT_TYPED if why not in left]
    return wrong, typed


def check_options(root, options):
    """Options in passing: `larder train --ahead`."""
    wrong, count = [], 0
    for path in [root / "README.md", *sorted((root / "docs").glob("*/*.md"))]:
        text = re.sub(r"```.*?\n```", "", path.read_text(encoding="utf-8"), flags=re.S)
        for span in re.findall(r"`larder ([a-z-]+ [^`]*)`", text):
            command, said = span.split(" ", 1)
            if command not in options:
                wrong.append(f"{path.name}: there is no larder {command}")
                continue
            for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", said):
                count += 1
                if option not in options[command]:
                    wrong.append(f"{path.name}: larder {command} has no {option}")
    return wrong, count


def test_finds():
    """That the two find what they are there for."""
    made = {"a.md": list(typed_kit.blocks("a.md", "```\nlarder ls x\n```\n```\nfrobnicate\n```\n```python\nx\n```\n"))}
    wrong, typed = check_blocks(made)
    assert typed == 1 and wrong[0] == "a.md:5: neither typed nor shown (```text): frobnicate", wrong
    assert len(wrong) == 1 + len(typed_kit.NOT_TYPED), wrong
    session = next(typed_kit.blocks("a.md", "```\n$ larder ls \\\n  x\n12 samples\n…\n$ larder top\n```"))
    assert session.commands() == [("larder ls    x", ["12 samples", "…"]), ("larder top", [])], session.commands()


def main():
    test_finds()
    wrong, typed = check_blocks(typed_kit.pages(ROOT))
    more, count = check_options(ROOT, typed_kit.options_of(LARDER))
    wrong += more
    print("\n".join(wrong) if wrong else f"{typed} commands to be typed, {count} options in passing")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
