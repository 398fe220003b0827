"""Data that is not .npz: pairs of .npy, CSV, IDX; every way to the same numbers trains the same member."""
import struct

import numpy as np
import pytest
import torch
from torch import nn

from chorus_testing import export, state, tool

X = np.random.RandomState(0).randint(0, 256, (10, 4, 5)).astype("u1")
Y = (np.arange(10) * 7 % 3).astype("u1")


def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(20, 3))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    torch.manual_seed(0)
    export(net(), folder / "images.pt", torch.zeros(2, 1, 4, 5))
    export(nn.Linear(3, 1), folder / "rows.pt", torch.zeros(2, 3))
    return folder


def trained(folder, model, data, *options):
    tool("run", model, "--data", data, "--epochs", "2", "--batch-size", "4", "--optimizer", "sgd", "--lr", "0.1", "--quiet", "-o", "out.pt",
         *options, cwd=folder)
    return state(torch.jit.load(folder / "out.pt"))


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def idx(array, code, kind):
    head = struct.pack(">BBBB", 0, 0, code, array.ndim) + b"".join(struct.pack(">I", n) for n in array.shape)
    return head + array.astype(kind).tobytes()


def test_idx_images_and_labels(folder):
    (folder / "train-images-idx3-ubyte").write_bytes(idx(X, 8, "u1"))
    (folder / "train-labels-idx1-ubyte").write_bytes(idx(Y, 8, "u1"))
    np.savez(folder / "d.npz", x=(torch.from_numpy(X).float() / 255).unsqueeze(1).numpy(), y=Y)
    got = trained(folder, "images.pt", "train-images-idx3-ubyte,train-labels-idx1-ubyte", "--loss", "cross_entropy")
    assert same(got, trained(folder, "images.pt", "d.npz", "--loss", "cross_entropy"))
    x = (X[:, None] / np.float32(255)).astype("f4")
    np.save(folder / "a.npy", x)
    np.save(folder / "b.npy", Y)
    assert same(got, trained(folder, "images.pt", "a.npy,b.npy", "--loss", "cross_entropy"))


def test_idx_of_floats_is_big_endian(folder):
    rows = np.random.RandomState(1).randn(10, 3)
    (folder / "rows.idx").write_bytes(idx(rows, 0x0E, ">f8"))
    np.savez(folder / "r.npz", x=rows)
    tool("run", "rows.pt", "--data", "rows.idx", "--keys", "rows", "--predict", "a.npz", cwd=folder)
    tool("run", "rows.pt", "--data", "r.npz", "--predict", "b.npz", cwd=folder)
    np.testing.assert_array_equal(np.load(folder / "a.npz")["output"], np.load(folder / "b.npz")["output"])


@pytest.mark.parametrize("text", [
    "a,b,c,y\n1,2,3,0.5\n4,5,6,-1\n-1,0.25,1e-3,2\n",
    "1;2;3;0.5\r\n4;5;6;-1\r\n\r\n-1;0.25;1e-3;2\r\n",
    "y,a,b,c\n0.5,1,2,3\n-1,4,5,6\n2,-1,0.25,1e-3\n",
    "x.0\tx.1\tx.2\ty.0\n1\t2\t3\t0.5\n4\t5\t6\t-1\n-1\t0.25\t0.001\t2\n",
    "x.2,y,x.0,id,x.1\n3,0.5,1,7,2\n6,-1,4,8,5\n0.001,2,-1,9,0.25\n",
    "\nx.02,x.00,x.01,y\n3,1,2,0.5\n6,4,5,-1\n0.001,-1,0.25,2\n",
])
def test_csv(folder, text):
    (folder / "d.csv").write_bytes(text.encode())
    np.savez(folder / "c.npz", x=np.array([[1, 2, 3], [4, 5, 6], [-1, 0.25, 1e-3]], "f4"), y=np.array([[0.5], [-1], [2]], "f4"))
    assert same(trained(folder, "rows.pt", "d.csv", "--loss", "mse"), trained(folder, "rows.pt", "c.npz", "--loss", "mse"))


def test_columns_go_by_their_numbers_whatever_their_rank(folder):
    rows = np.arange(24).reshape(3, 4, 2) * 0.5
    order = np.random.RandomState(3).permutation(8)
    names, cells = [f"x.{i}.{j}" for i in range(4) for j in range(2)], rows.reshape(3, 8)
    lines = [",".join(names[c] for c in order)] + [",".join(str(row[c]) for c in order) for row in cells]
    (folder / "deep.csv").write_text("\n".join(lines) + "\n")
    np.savez(folder / "deep.npz", x=rows)
    export(nn.Linear(2, 1), folder / "deep.pt", torch.zeros(2, 4, 2))
    for kind in ("csv", "npz"):
        tool("run", "deep.pt", "--data", f"deep.{kind}", "--predict", f"deep_{kind}.npz", cwd=folder)
    np.testing.assert_array_equal(*(np.load(folder / f"deep_{kind}.npz")["output"] for kind in ("csv", "npz")))


GAP = "\n  note: the columns of an array are numbered from 0 on, without gaps\n"


@pytest.mark.parametrize("header,message", [
    ("x.0,x.1,x.1,y", "columns 2 and 3 are 'x.1' and 'x.1': one of them is there twice\n"),
    ("x.0,x.1,x.01,y", "columns 2 and 3 are 'x.1' and 'x.01': one of them is there twice\n"),
    ("y,a,b,y", "columns 1 and 4 are 'y' and 'y': one of them is there twice\n"),
    ("x.0,x.1,x.3,y", "there is a column 'x.3', but no 'x.2'" + GAP),
    ("x.1,x.2,x.3,y", "there is a column 'x.1', but no 'x.0'" + GAP),
    ("x.0,x.1,x.9223372036854775807,y", "there is a column 'x.9223372036854775807', but no 'x.2'" + GAP),
    ("x.0.0,x.0.1,x.1.0,y", "there is a column 'x.1.0', but no 'x.1.1'" + GAP),
    ("x,x.1,x.2,y", "the column 'x' has no number, but 'x.1' has one\n"),
    ("x.0,x.1.0,x.1.1,y", "the columns 'x.0' and 'x.1.0' of one array have 1 and 2 numbers\n"),
])
def test_columns_that_do_not_make_an_array_are_refused(folder, header, message):
    (folder / "odd.csv").write_text(header + "\n1,2,3,4\n")
    done = tool("run", "rows.pt", "--data", "odd.csv", "--loss", "mse", "--optimizer", "sgd", "--lr", "1", "-o", "n.pt", ok=False, cwd=folder)
    assert (done.returncode, done.stderr) == (1, "odd.csv:1: error: " + message)


@pytest.mark.parametrize("data,message", [
    (b"a,b,c,y\n1,2,3,4\n1,2,x,4\n", "bad:3: error: column 'c' has 'x', which is no number\n"),
    (b"1,2,3,4\n1,2,3\n", "bad:2: error: there are 3 cells, but 4 columns\n"),
    (b"a,b,c,y\n", "bad: error: the file has no rows of numbers\n"),
    (idx(X, 8, "u1")[:-1], "bad: error: the IDX file has 199 bytes of data, but needs 200\n"),
    (b"\0\0\x08\x01\xff\xff\xff\xff", "bad: error: the IDX file claims more elements than it has\n"),
    (b"\0\0\x08\x03\0", "bad: error: the IDX file is cut off in its header\n"),
])
def test_bad_files_are_refused_by_place(folder, data, message):
    (folder / "bad").write_bytes(data)
    done = tool("run", "rows.pt", "--data", "bad", "--loss", "mse", "--optimizer", "sgd", "--lr", "1", "-o", "n.pt", ok=False, cwd=folder)
    assert (done.returncode, done.stderr) == (1, message)


def test_one_array_alone_is_told_how_to_name_the_other(folder):
    np.save(folder / "alone.npy", np.zeros((3, 3), "f4"))
    done = tool("run", "rows.pt", "--data", "alone.npy", "--loss", "mse", "--optimizer", "sgd", "-o", "t.pt", cwd=folder, ok=False)
    assert done.returncode == 1 and "several files between commas stand for the keys in order, e.g. --data alone.npy,y.npy" in done.stderr
