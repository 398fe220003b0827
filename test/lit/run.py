"""Runs lit on the given files (default: all of this folder): python3 test/lit/run.py test/lit/passes/dead_code.ir

The build folder is CHORUS_BUILD, or build/ of the project.
"""
import os
import pathlib
import sys

from lit.main import main  # `python3 -m lit.main` would do nothing, and call it a success

here = pathlib.Path(__file__).resolve().parent
os.environ.setdefault("CHORUS_BUILD", str(here.parents[1] / "build"))
if __name__ == "__main__":
    files = [str(pathlib.Path(name).resolve()) for name in sys.argv[1:]] or [str(here)]
    # ctest runs several lits at a time, and each keeps a file of times in its folder.
    work = os.path.relpath(files[0], here).replace("/", "_") if len(files) == 1 else "all"
    sys.argv[1:] = ["-v", "--param", f"work={work}", *files]
    main()
