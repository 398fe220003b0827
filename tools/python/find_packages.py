"""What of requirements.txt the running Python has; used by tools/setup. Imports nothing heavy: it reads metadata only.

    python3 find_packages.py torch     prints the folder of a supported torch, or fails saying why there is none
    python3 find_packages.py missing   prints the requirements to install beside that torch, one a line
    python3 find_packages.py paths     prints the folders that packages are looked for in, one a line
"""
import importlib.metadata
import importlib.util
import pathlib
import re
import sys

OLDEST_TORCH = (2, 8)
OLDEST_PYTHON = (3, 11)
# Packages that tests import themselves; what they need in turn comes with them.
NEEDED = ("torchvision", "numpy", "scikit-learn", "pytest", "expecttest", "lit")
MODULES = {"scikit-learn": "sklearn"}


def torch_version():
    version = importlib.metadata.version("torch")
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def torch_folder():
    """Folder of a torch that a C++ program can be built against."""
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(f"Python {sys.version.split()[0]} is older than 3.11")
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("no torch")
    try:
        version = torch_version()
    except importlib.metadata.PackageNotFoundError:
        sys.exit("a torch without metadata")
    if version < OLDEST_TORCH:
        sys.exit(f"torch {version[0]}.{version[1]} is older than 2.8")
    folder = pathlib.Path(spec.submodule_search_locations[0])
    for part in ("lib/libtorch_cpu.so", "include/torch/csrc/jit/api/module.h"):
        if not (folder / part).exists():
            sys.exit(f"torch in {folder} has no {part}")
    return folder


def pins():
    """name -> pinned version, from requirements.txt beside this file."""
    text = pathlib.Path(__file__).with_name("requirements.txt").read_text()
    return dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)$", text, re.MULTILINE))


def missing():
    pinned = pins()
    local = importlib.metadata.version("torch").partition("+")[2]
    if local:  # e.g. "cpu": the packages built beside it are in an index of their own
        yield f"--extra-index-url=https://download.pytorch.org/whl/{local}"
    for name in NEEDED:
        if importlib.util.find_spec(MODULES.get(name, name)) is None:
            version = pinned[name]
            if name == "torchvision":  # 0.N+15 belongs to torch 2.N
                version = f"0.{torch_version()[1] + 15}.*"
            yield f"{name}=={version}"


if __name__ == "__main__":
    if sys.argv[1:] == ["torch"]:
        print(torch_folder())
    elif sys.argv[1:] == ["missing"]:
        lines = list(missing())
        if any("==" in line for line in lines):
            print("\n".join(lines))
    elif sys.argv[1:] == ["paths"]:
        print("\n".join(path for path in sys.path if path.endswith(("site-packages", "dist-packages"))))
    else:
        sys.exit(__doc__)
