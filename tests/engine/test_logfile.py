"""The engine's log where its file, or the folder, is moved or removed."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from aisp.engine.logfile import LogFile


def test_a_log_is_begun_anew_where_its_file_or_its_folder_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    path = folder / "engine.log"
    handler = LogFile(path)
    handler.setFormatter(logging.Formatter("%(message)s"))

    def say(text: str) -> None:
        handler.emit(logging.LogRecord("aisp", logging.INFO, "", 0, text, None, None))

    say("one")
    path.unlink()
    say("two")
    assert path.read_text() == "two\n"
    path.rename(folder / "moved.log")
    say("three")
    assert path.read_text() == "three\n"
    shutil.rmtree(folder)
    say("four")
    assert path.read_text() == "four\n"
    assert folder.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(folder)
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    say("five, which is lost")
    assert list(folder.iterdir()) == []
    folder.unlink()
    say("six")
    assert path.read_text() == "six\n"
    handler.close()
