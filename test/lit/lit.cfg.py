# How lit runs the files of this folder. By hand: build/test/lit needs a build; then
#     python3 -m lit.main -v test/lit/passes/dead_code.ir
# Substitutions: the tools by name, FileCheck, not, %python.
import os

import lit.formats

here = os.path.dirname(os.path.abspath(__file__))
build = os.environ.get("CHORUS_BUILD", os.path.join(here, "..", "..", "build"))
site = lit_config.params.get("chorus_site", os.path.join(build, "test", "lit", "lit.site.cfg.py"))
lit_config.load_config(config, site)

config.name = "chorus"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".ir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = here
# A folder for each file: ctest runs several lits at a time, and lit keeps a file of times in it.
config.test_exec_root = os.path.join(config.chorus_build, "test", "lit", "work",
                                     lit_config.params.get("chorus_file", "all").replace("/", "_"))
config.environment["OMP_NUM_THREADS"] = "1"
for name in ("HOME", "ASAN_OPTIONS", "CHORUS_FAULT"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

for tool in ("chorus-fuse", "chorus-run", "chorus-split", "chorus-opt"):
    # Whole words only: "chorus-opt" must not match in "chorus-opt.log" or in a path.
    config.substitutions.append((rf"(?<![\w/.-]){tool}(?![\w.-])", os.path.join(config.chorus_bin, tool)))
config.substitutions.append((r"(?<![\w/.-])FileCheck(?![\w.-])", config.chorus_filecheck))
config.substitutions.append((r"(?<![\w/.-])not(?![\w.-])", config.chorus_not))
config.substitutions.append(("%python", config.chorus_python))
