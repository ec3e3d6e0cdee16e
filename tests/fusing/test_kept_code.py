"""Machine code that is kept on disk: read again, and never worse than compiled anew."""

import os

import pytest
import torch

from asyncsim.base import compiling
from asyncsim.base.compiling import Shelf
from asyncsim.fusing import program
from asyncsim.fusing.program import Program
from tests.fusing.code import unkept


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A shelf in a folder of its own, on which nothing has been said yet."""
    made = Shelf(test_code_is_read_again)
    made.folder = tmp_path / "kept"
    monkeypatch.setattr(compiling, "_reported", set())
    return made


def doubled(monkeypatch, shelf):
    """A program compiled as in a new process; whether it had to be compiled, and what it gives."""
    unkept(monkeypatch, shelf)
    written = []
    right = program._code
    monkeypatch.setattr(program, "_code", lambda text: written.append(text) or right(text))
    x = torch.arange(9, dtype=torch.float64).reshape(9, 1)
    made = Program(lambda tree: {"y": tree["x"] * 2.0 + 0.125}, {"x": x}, 9)
    monkeypatch.setattr(program, "_code", right)
    return bool(written), made({"x": x})["y"].reshape(-1).tolist()


RESULT = [2.0 * k + 0.125 for k in range(9)]


def test_code_is_read_again(monkeypatch, shelf, capsys):
    assert doubled(monkeypatch, shelf) == (True, RESULT)
    assert doubled(monkeypatch, shelf) == (False, RESULT)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("place", [0, 100, -1])
def test_a_flipped_bit_is_seen(monkeypatch, shelf, capsys, place):
    """Planted: one byte of the kept code is another one, which would run."""
    doubled(monkeypatch, shelf)
    (path,) = shelf.folder.glob("*.program")
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))
    assert doubled(monkeypatch, shelf) == (True, RESULT)
    assert "is damaged and is compiled anew" in capsys.readouterr().err
    assert doubled(monkeypatch, shelf) == (False, RESULT)


def test_a_folder_that_cannot_be_written_costs_a_line(monkeypatch, shelf, capsys):
    shelf.folder.write_text("a file where the folder should be")
    for _ in range(2):
        assert doubled(monkeypatch, shelf) == (True, RESULT)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and "set NUMBA_CACHE_DIR to another folder" in said[0]


def test_the_oldest_give_way(shelf):
    shelf.most = 3
    for number in range(5):
        shelf.write(str(number), b"code")
        os.utime(shelf.folder / f"{number}.program", (number, number))
    shelf.read("2")
    shelf.write("5", b"code")
    assert {path.stem for path in shelf.folder.iterdir()} == {"2", "4", "5"}
    assert shelf.read("2") == b"code" and shelf.read("3") is None
