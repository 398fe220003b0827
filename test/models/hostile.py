"""Hostile and broken model files, each made from a harmless one by the change that its name says.

`samples(folder)` writes them all and yields a Sample: the file, and an expression that the refusal must match.
"""
import io
import pickle
import struct
import zipfile
from collections import namedtuple
from pathlib import Path

import numpy as np
import torch
from torch import nn

Sample = namedtuple("Sample", "name path expected")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.register_buffer("b", torch.ones(3))

    def forward(self, x):
        return self.inner(x) + self.b


def harmless():
    """The records of a small traced archive: name -> bytes, in order."""
    buffer = io.BytesIO()
    torch.manual_seed(0)
    torch.jit.save(torch.jit.trace(Net(), torch.ones(2, 3)), buffer)
    with zipfile.ZipFile(buffer) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, records, compress=()):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in records.items() if isinstance(records, dict) else records:
            kind = zipfile.ZIP_DEFLATED if name in compress else zipfile.ZIP_STORED
            info = zipfile.ZipInfo(name)
            info.compress_type = kind
            archive.writestr(info, data)
    return path


def code_record(records):
    return next(n for n in records if n.endswith(".py") and b"class Net" in records[n])


def with_code(change):
    """The archive with `change(text) -> text` applied to the code of Net; positions dropped."""
    records = harmless()
    name = code_record(records)
    text = records[name].decode()
    changed = change(text)
    assert changed != text
    records[name] = changed.encode()
    return {n: d for n, d in records.items() if n != name + ".debug_pkl"}


def first_statement(line):
    return lambda text: text.replace(") -> Tensor:\n", f") -> Tensor:\n    {line}\n", 1)


def more(definition):
    return lambda text: text + definition


# Code: (name, change, expected).
CODE = [
    ("setstate", more("  def __setstate__(self, s: Dict[str, Tensor]) -> NoneType:\n    return None\n"), "defines '__setstate__'"),
    ("getstate", more("  def __getstate__(self) -> int:\n    return 0\n"), "defines '__getstate__'"),
    ("save", first_statement('_s = torch.save(x, "owned")'), "'aten::save', which writes files"),
    ("save_through_ops", first_statement('_s = ops.aten.save(x, "owned")'), "'aten::save', which writes files"),
    ("save_through_autograd", first_statement('_s = torch.autograd.save(x, "owned")'), "'aten::save', which writes files"),
    ("save_through_ops_autograd", first_statement('_s = ops.any.autograd.save(x, "owned")'), "hides what it calls"),
    ("save_as_method", first_statement('_s = (x).save("owned")'), "'aten::save', which writes files"),
    ("save_by_getattr", first_statement('_s = getattr(x, "save")'), "'aten::save', which writes files"),
    ("save_as_value", first_statement("_s = torch.save"), "hides what it calls"),
    ("namespace_as_value", first_statement("_s = torch"), "'torch' for something other than a call"),
    ("namespace_shadowed", first_statement("torch = x"), "gives the name 'torch' a meaning of its own"),
    ("namespace_by_getattr", first_statement('_s = getattr(torch, "save")'), "'torch' for something other than a call"),
    ("save_in_default", lambda t: t.replace("x: Tensor", 'x: Tensor, y: Any=torch.save(1, "owned")', 1), "'aten::save'"),
    ("save_in_constant", lambda t: t.replace("  training : bool", '  c : Final[int] = torch.save(1, "o")\n  training : bool', 1), "'aten::save'"),
    ("from_file", first_statement('x = torch.from_file("/etc/passwd")'), "'aten::from_file', which maps files"),
    ("print", first_statement("print(x)"), "'prim::Print', which prints"),
    ("print_as_value", first_statement("_s = print"), "'prim::Print', which prints"),
    ("fork", first_statement("_s = fork(self.inner, x)"), "'prim::fork', which starts other threads"),
    ("wait", first_statement("_s = torch.wait(x)"), "'aten::wait', which waits"),
    ("seed", first_statement("_s = torch.seed()"), "'aten::seed', which changes the random state"),
    ("manual_seed", first_statement("torch.manual_seed(0)"), "'aten::manual_seed', which changes the random state"),
    ("set_storage", first_statement("_s = torch.set_(x, x)"), "'aten::set_'"),
    ("backward", first_statement("torch.backward(torch.sum(x))"), "'aten::backward'"),
    ("grad", first_statement("_s = torch.grad([x], [x])"), "'aten::grad'"),
    ("set_grad_enabled", first_statement("torch.set_grad_enabled(False)"), "'aten::set_grad_enabled'"),
    ("rpc", first_statement('_s = ops.prim.rpc_async("worker", x)'), "'prim::rpc_async', which talks to other processes"),
    ("custom_operator", first_statement("_s = ops.torchvision.nms(x, x, 0.5)"), "'torchvision::nms', which is a custom operator"),
    ("python_operator", first_statement("_s = ^Function(1)(x)"), "'prim::PythonOp', which runs Python"),
    ("unlisted_operator", first_statement("_s = torch.resize_(x, [10])"), "'aten::resize_', which is not on the list"),
    ("custom_class", lambda t: t.replace("  training : bool", "  q : __torch__.torch.classes.quantized.LinearPackedParamsBase\n  training : bool", 1), "the type '__torch__.torch.classes.quantized"),
    ("custom_class_called", first_statement("_s = __torch__.torch.classes.dist.Store.__new__(__torch__.torch.classes.dist.Store)"), "which it does not define"),
    ("plain_class", more("class Evil:\n  x : int\n  def __init__(self) -> NoneType:\n    return None\n"), "'__torch__.*Evil' is neither"),
    ("interface", more("class Evil(ModuleInterface):\n  def forward(self, x: Tensor) -> Tensor:\n    pass\n"), "is a 'ModuleInterface'"),
    ("unknown_function", first_statement("_s = open(x)"), "the name 'open'"),
    ("import", lambda t: "import os\n" + t, "'import' where only classes and functions"),
    ("type_comment", first_statement("_s = [x]  # type: List[Any]"), "type comments"),
    ("deep_brackets", first_statement("_s = " + "[" * 300 + "]" * 300), "nests deeper"),
    ("deep_unary", first_statement("_s = " + "-" * 100_000 + "1"), "nests deeper"),
    ("deep_chain", first_statement("_s = 1" + "+1" * 100_000), "nests deeper"),
    ("deep_calls", first_statement("_s = x" + "[0]" * 100_000), "nests deeper"),
    ("deep_branches", first_statement("if True:\n      pass\n" + "    elif True:\n      pass\n" * 3000), "nests deeper|not TorchScript"),
    ("blank_lines", lambda t: "\n" * 200_000 + t, "blank lines"),
    ("not_code", lambda t: "class (\n", "is not TorchScript"),
]

GLOBAL_SYSTEM = b"cposix\nsystem\n"
CALL_SYSTEM = GLOBAL_SYSTEM + b"X\x04\x00\x00\x00true\x85R."


def with_record(end, data):
    records = harmless()
    name = next(n for n in records if n.endswith(end))
    records[name] = data if isinstance(data, bytes) else data(records[name])
    return records


def storage_count(data):
    """Claims 127 elements where the first weight has 9."""
    assert b"K\x09t" in data
    return data.replace(b"K\x09t", b"K\x7ft", 1)


def renamed_class(data):
    return data.replace(b"Net\n", b"Nut\n", 1)


# Pickles: (name, end of the record's name, new bytes, expected).
PICKLES = [
    ("pickle_system", "/data.pkl", b"\x80\x02" + CALL_SYSTEM, "the Python name 'posix.system'"),
    ("pickle_constants", "/constants.pkl", b"\x80\x02" + CALL_SYSTEM, "'constants.pkl' uses the Python name 'posix.system'"),
    ("pickle_inputs", "/traced_inputs.pkl", b"\x80\x02" + CALL_SYSTEM, "'traced_inputs.pkl' uses the Python name"),
    ("pickle_positions", ".debug_pkl", b"\x80\x02" + CALL_SYSTEM, "debug_pkl' uses the Python name 'posix.system'"),
    ("pickle_unknown_class", "/data.pkl", renamed_class, "the Python name '__torch__.*Nut'"),
    ("pickle_protocol_4", "/data.pkl", pickle.dumps({}, 4), "not a pickle of protocol 2"),
    ("pickle_stack_global", "/data.pkl", b"\x80\x02X\x05\x00\x00\x00posixX\x06\x00\x00\x00system\x93.", "the opcode 147"),
    ("pickle_call_of_number", "/data.pkl", b"\x80\x02K\x00)R.", "calls a value that is not a function"),
    ("pickle_cycle", "/data.pkl", b"\x80\x02]q\x00h\x00a.", "contains itself"),
    ("pickle_late_cycle", "/data.pkl", b"\x80\x02]q\x00\x85q\x01h\x00h\x01a\x86.", "the container it has just made"),
    ("pickle_deep", "/data.pkl", b"\x80\x02" + b"]" * 3000 + b"a" * 2999 + b".", "deeper than 200"),
    ("pickle_empty_stack", "/data.pkl", b"\x80\x02R.", "empty stack"),
    ("pickle_truncated", "/data.pkl", lambda d: d[: len(d) // 2], "is truncated|left over"),
    ("pickle_trailing", "/data.pkl", lambda d: d + b"x", "bytes behind its end"),
    ("pickle_memo", "/data.pkl", b"\x80\x02h\x07.", "a value that is not there"),
    ("pickle_large_storage", "/data.pkl", storage_count, "claims a tensor of 127 elements"),
    ("pickle_text_table", ".debug_pkl", lambda d: d.replace(b"](e", b"](K\xfae", 1), "a source text that is not there"),
]


def duplicate(path, other=None):
    records = list(harmless().items())
    name = next(n for n, _ in records if n.endswith("data.pkl"))
    return write(path, records + [(other(name) if other else name, b"x")])


def renamed(path, name):
    return write(path, {**harmless(), name: b"x"})


def patched(path, change):
    write(path, harmless())
    data = bytearray(path.read_bytes())
    path.write_bytes(change(data))
    return path


def central(data, n=0):
    """Offset of the n-th entry of the directory."""
    at = struct.unpack_from("<I", data, len(data) - 6)[0]
    for _ in range(n):
        name, extra, comment = struct.unpack_from("<HHH", data, at + 28)
        at += 46 + name + extra + comment
    return at


def encrypted(data):
    data[central(data) + 8] |= 1
    return data


def other_local_name(data):
    data[30] = ord("Z")
    return data


def overlapping(data):
    """Two entries with one place in the file."""
    first, second = central(data), central(data, 1)
    data[second + 42 : second + 46] = data[first + 42 : first + 46]
    return data


def second_end(data):
    """The real end, hidden in the comment of another one that lies in front."""
    end = bytes(data[-22:])
    return data[:-22] + end[:-2] + struct.pack("<H", 22) + end


def bomb(path):
    records = harmless()
    top = next(iter(records)).split("/")[0]
    records[f"{top}/extra/zeros"] = bytes(64 << 20)
    return write(path, records, compress=[f"{top}/extra/zeros"])


def top_of(records):
    return next(iter(records)).split("/")[0]


def version(text):
    records = harmless()
    records[f"{top_of(records)}/version"] = text
    records.pop(f"{top_of(records)}/.data/version", None)
    return records


ZIPS = [
    ("zip_twice", duplicate, "'data.pkl' twice|ambiguous|damaged"),
    ("zip_twice_by_case", lambda p: duplicate(p, lambda n: n.replace("data.pkl", "DATA.pkl")), "twice"),
    ("zip_parent_folder", lambda p: renamed(p, "archive/../../x"), "unsafe name"),
    ("zip_absolute", lambda p: renamed(p, "/etc/x"), "unsafe name"),
    ("zip_backslash", lambda p: renamed(p, "archive\\x"), "unsafe name"),
    ("zip_outside", lambda p: renamed(p, "elsewhere/x"), "outside its folder"),
    ("zip_in_code", lambda p: renamed(p, top_of(harmless()) + "/code/x.so"), "among its code"),
    ("zip_legacy", lambda p: renamed(p, top_of(harmless()) + "/model.json"), "format of PyTorch 1.0"),
    ("zip_encrypted", lambda p: patched(p, encrypted), "encrypted"),
    ("zip_local_name", lambda p: patched(p, other_local_name), "differs from its entry"),
    ("zip_overlap", lambda p: patched(p, overlapping), "overlaps|differs"),
    ("zip_second_end", lambda p: patched(p, second_end), "damaged|ambiguous"),
    ("zip_bomb", bomb, "compression bomb"),
    ("zip_truncated", lambda p: patched(p, lambda d: d[: len(d) * 2 // 3]), "truncated"),
    ("zip_one_byte_short", lambda p: patched(p, lambda d: d[:-1]), "truncated"),
    ("zip_trailing", lambda p: patched(p, lambda d: d + b"more"), "truncated"),
    ("zip_version", lambda p: write(p, version(b"99")), "format version 99, newer than this LibTorch reads"),
    ("zip_no_version", lambda p: write(p, version(b"x")), "does not say its format version"),
    ("zip_big_endian", lambda p: write(p, with_record("/byteorder", b"big")), "other byte order"),
]


def pickled(value, **options):
    return lambda path: (torch.save(value(), path, **options), path)[1]


def made(function):
    return lambda path: (function(path), path)[1]


def numpy_file(save, *args, **arrays):
    def make(path):
        with open(path, "wb") as f:
            save(f, *args, **arrays)
        return path

    return make


FILES = [
    ("file_missing", lambda p: p, "no such file"),
    ("file_folder", made(lambda p: p.mkdir()), "a folder"),
    ("file_empty", made(lambda p: p.write_bytes(b"")), "is empty"),
    ("file_text", made(lambda p: p.write_text("a.pt\nb.pt\n")), "is text"),
    ("file_random", made(lambda p: p.write_bytes(b"\x01\x02\x03\xff" * 99)), "no zip archive"),
    ("file_npz", numpy_file(np.savez, x=np.ones(3)), r"NumPy archive \(.npz\)"),
    ("file_npy", numpy_file(np.save, np.ones(3)), r"NumPy array \(.npy\)"),
    ("file_zip", lambda p: write(p, {"a/b": b"x"}), "zip archive without TorchScript code"),
    ("file_state_dict", pickled(lambda: Net().state_dict()), r"state dict[^$]*model.train\(\)[^$]*torch.jit.trace[^$]*\.save\("),
    ("file_old_state_dict", pickled(lambda: Net().state_dict(), _use_new_zipfile_serialization=False), r"state dict[^$]*model.train\(\)"),
    ("file_module", pickled(Net), r"pickled nn.Module[^$]*model.train\(\)[^$]*torch.jit.trace[^$]*\.save\("),
    ("file_old_module", pickled(Net, _use_new_zipfile_serialization=False), r"pickled nn.Module[^$]*model.train\(\)"),
    ("file_exported", lambda p: write(p, {"m/archive_format": b"pt2", "m/models/model.json": b"{}"}), "torch.export program"),
]


def samples(folder):
    folder = Path(folder)
    for name, change, expected in CODE:
        yield Sample(name, write(folder / f"{name}.pt", with_code(change)), expected)
    for name, record, data, expected in PICKLES:
        yield Sample(name, write(folder / f"{name}.pt", with_record(record, data)), expected)
    for name, make, expected in ZIPS + FILES:
        yield Sample(name, make(folder / f"{name}.pt"), expected)
