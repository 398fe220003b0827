"""The layout of the project: fixed top level, files that one can read in one go."""
# ctest: quick
import os
import pathlib
import subprocess

ROOT = pathlib.Path(os.environ.get("CHORUS_SOURCE", pathlib.Path(__file__).parents[2]))
TOP_LEVEL = {"CMakeLists.txt", "include", "lib", "passes", "tools", "test", "runtime", "docs", "README.md"}
CODE = ("include", "lib", "passes", "tools", "runtime")
LONGEST = 400
ENDINGS = {".cpp", ".h", ".cu", ".cuh", ".py", ".cmake", ""}  # "": the scripts of tools/


def project_files():
    """Paths relative to ROOT of the files that belong to the project (git's word where there is git)."""
    git = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                         capture_output=True, text=True)
    if git.returncode == 0:
        paths = [pathlib.Path(name) for name in git.stdout.split("\0") if name]
    else:
        paths = [path.relative_to(ROOT) for path in ROOT.rglob("*")]
        paths = [path for path in paths if not path.parts[0].startswith("build")]
    return [path for path in paths if (ROOT / path).is_file() and "__pycache__" not in path.parts]


def test_top_level_is_fixed():
    entries = {path.parts[0] for path in project_files()}
    assert {entry for entry in entries if not entry.startswith(".")} <= TOP_LEVEL


def test_source_files_are_short():
    long = {}
    for path in project_files():
        if path.parts[0] in CODE and path.suffix in ENDINGS:
            lines = len((ROOT / path).read_text().splitlines())
            if lines > LONGEST:
                long[str(path)] = lines
    assert not long, f"longer than {LONGEST} lines: {long}"


def test_libraries_include_in_one_direction():
    """tools -> runtime, passes -> lib -> include: nobody includes a header of a layer above."""
    above = {"include": ("lib/", "passes/", "runtime/", "tools/"), "lib": ("passes/", "runtime/", "tools/"),
             "passes": ("runtime/", "tools/"), "runtime": ("tools/",)}
    wrong = []
    for path in project_files():
        layers = above.get(path.parts[0])
        if layers and path.suffix in (".cpp", ".h"):
            for line in (ROOT / path).read_text().splitlines():
                if line.startswith("#include \"") and line[len("#include \""):].startswith(layers):
                    wrong.append(f"{path}: {line}")
    assert not wrong, "\n".join(wrong)
