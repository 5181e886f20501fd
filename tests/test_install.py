"""``make setup`` installs the lock from where pip would, and falls back to pip aloud."""

import re
import subprocess

import install


def test_uv_itself_comes_from_the_lock_with_its_hashes():
    text = install.LOCK.read_text(encoding="utf-8")
    pin = install.locked("uv", text)
    version, *hashes = pin.splitlines()
    assert re.fullmatch(r"uv==[\d.]+ \\", version)
    assert sum("--hash=sha256:" in line for line in hashes) > 5
    assert "==" not in "".join(hashes)
    assert install.locked("no-such-package", text) is None


def test_uv_asks_the_indexes_of_pip():
    lines = [
        "global.index-url='https://everyone.example/simple'",
        "global.extra-index-url='\\nfile:///srv/a\\nfile:///srv/b'",
        "install.index-url='https://installing.example/simple'",
        ":env:.find-links='/srv/wheels /srv/more'",
        "global.timeout='60'",
        "list.format='columns'",
    ]
    assert install.of_pip(lines) == {
        "UV_DEFAULT_INDEX": "https://installing.example/simple",
        "UV_INDEX": "file:///srv/a file:///srv/b",
        "UV_FIND_LINKS": "/srv/wheels,/srv/more",
    }
    typed = [*lines, ":env:.index-url='https://mine.example/simple'"]
    assert install.of_pip(typed)["UV_DEFAULT_INDEX"] == "https://mine.example/simple"


def test_pip_does_it_where_uv_does_not(monkeypatch, capsys, tmp_path):
    """The same lock with the same hashes, then omkl without what it depends on."""
    lock = tmp_path / "requirements.lock"
    lock.write_text("made-up==1.0 \\\n    --hash=sha256:00\n")
    monkeypatch.setattr(install, "LOCK", lock)
    called = []

    def run(command, **options):
        called.append(command)
        return subprocess.CompletedProcess(command, returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    assert install.main() == 0
    assert "uv is not in requirements.lock: installing with pip" in capsys.readouterr().out
    assert [command[len(install.PIP)] for command in called] == ["install", "install"]
    assert "--require-hashes" in called[0] and "--no-deps" in called[1]
