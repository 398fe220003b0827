# ctest: quick
"""docs/reference/diagnostics.md has the whole text of what the tools say, as they say it: every example is run and compared.

`python test/pytest/test_diagnostics.py --write` writes the page anew, and prints what became of it.
"""
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "python"), str(ROOT / "test" / "models")]

import pytest

import refused
from chorus_testing import tool

PAGE = ROOT / "docs" / "reference" / "diagnostics.md"
FOLDERS = ["lib", "passes", "runtime", "tools/common", "tools/chorus-fuse", "tools/chorus-run", "tools/chorus-split"]
HEAD = """# Diagnostics

Printed by `python test/pytest/test_diagnostics.py --write`, which runs every example; a test compares. A message has the place (file,
source line), what is wrong with both values, the condition of docs/fusion_contract.md where there is one, notes, and what to do.
Exit codes: 1 the input is refused, 2 usage, 3 unsupported, 70 a bug of chorus.
"""


def run(example, folder):
    """The command and what it says; all but the last command of several are preparation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        commands = example.make(folder)
    commands = [commands] if isinstance(commands[0], str) else list(commands)
    for command in commands[:-1]:
        tool(*command, cwd=folder)
    done = tool(*commands[-1], cwd=folder, ok=False)
    return "chorus-" + " ".join(commands[-1]), done.returncode, done.stderr.rstrip()


def rendered(example, command, code, said):
    text = f"### {example.title}\n\n{example.cause} *What to do:* {example.fix}\n\n"
    return text + f"```\n$ {command}\n{said}\n```\n" + ("" if code == 1 else f"Exit code {code}.\n")


def literals(code, at):
    """The string literals of the call whose '(' is at `at`, what is between them as `...`; and the first helpWith behind it."""
    depth, i, parts, gap = 0, at, [], False
    while i < len(code):
        if code[i] == '"':
            j = i + 1
            while code[j] != '"':
                j += 2 if code[j] == "\\" else 1
            between = code[end:i] if parts else ""
            if parts and between.strip():
                parts.append("...")
            elif gap and not parts:
                parts.append("...")
            parts.append(code[i + 1 : j].replace('\\"', '"').replace("\\n", " "))
            i = end = j + 1
            continue
        depth += code[i] in "([{"
        depth -= code[i] in ")]}"
        if depth == 0:
            break
        gap = gap or (code[i].isalpha() and depth > 0 and not parts)
        i += 1
    if parts and code[end:i].strip(" )"):
        parts.append("...")
    return re.sub(r"(\.\.\.)+", "...", "".join(parts)), i


def messages():
    """Every text with which the sources refuse, by file: what a message says with `...` for values."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.cpp")):
            code = path.read_text()
            code = re.sub(r"//.*", "", code)
            texts = set()
            for call in re.finditer(r"\b(?:error|usage|unsupported|refuse)\(", code):
                text, _ = literals(code, call.end() - 1)
                if len(re.sub(r"[^a-z]", "", text)) > 8:
                    texts.add(text)
            if texts:
                found[str(path.relative_to(ROOT))] = sorted(texts)
    return found


def page(texts):
    text = HEAD
    for section, examples in refused.SECTIONS.items():
        text += f"\n## {section}\n\n" + "\n".join(texts[e.title] for e in examples)
    text += "\n## All texts\n\nEvery text with which the sources refuse; `...` stands for names and values.\n"
    for path, said in messages().items():
        text += f"\n`{path}`\n\n" + "".join(f"- {t}\n" for t in said)
    return text


EXAMPLES = [e for examples in refused.SECTIONS.values() for e in examples]


@pytest.mark.parametrize("example", EXAMPLES, ids=[re.sub(r"\W+", "_", e.title) for e in EXAMPLES])
def test_the_page_has_what_the_tool_says(example, tmp_path):
    command, code, said = run(example, tmp_path)
    assert code == example.code, said
    assert rendered(example, command, code, said) in PAGE.read_text(), f"{command}\n{said}"


def test_the_page_has_all_examples_and_texts():
    written = PAGE.read_text()
    texts = {e.title: re.search(rf"### {re.escape(e.title)}\n.*?```\n.*?```\n(?:Exit code \d+\.\n)?", written, re.S) for e in EXAMPLES}
    assert not [title for title, found in texts.items() if not found]
    assert page({title: found.group(0) for title, found in texts.items()}) == written


def test_every_condition_of_the_contract_has_an_example():
    contract = (ROOT / "docs" / "fusion_contract.md").read_text()
    conditions = set(re.findall(r"^\*\*(C\d+)\.", contract, re.M))
    shown = set(re.findall(r"\[(C\d+)\]", PAGE.read_text()))
    assert conditions - {"C9"} <= shown and len(conditions) == 13  # tables of equal sizes vary; others are C6


if __name__ == "__main__":
    assert sys.argv[1:] == ["--write"]
    shown = {}
    for example in EXAMPLES:
        with tempfile.TemporaryDirectory() as name:
            command, code, said = run(example, Path(name))
        if code != example.code:
            print(f"{example.title}: exit code {code}\n{said}", file=sys.stderr)
        shown[example.title] = rendered(example, command, code, said)
    PAGE.write_text(page(shown))
