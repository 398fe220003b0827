# How lit runs the files of this folder; started by run.py. Substitutions: those of lit, and %python.
import os

import lit.formats

build = os.environ["CHORUS_BUILD"]
lit_config.load_config(config, os.path.join(build, "test", "lit", "lit.site.cfg.py"))

config.name = "chorus"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".ir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
config.test_exec_root = os.path.join(build, "test", "lit", "work", lit_config.params["work"])
config.environment["OMP_NUM_THREADS"] = "1"
for name in ("HOME", "ASAN_OPTIONS", "CHORUS_FAULT"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

# The tools, FileCheck and not are found by name.
config.environment["PATH"] = os.pathsep.join([config.chorus_bin, config.chorus_programs, os.environ.get("PATH", "")])
config.substitutions.append(("%python", config.chorus_python))
