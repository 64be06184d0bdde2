"""Keeps the verdicts of kernel proofs outside the clone, so that no proof is repeated for nothing.

A verdict is the rows that the proof of one kernel file for one target by one compiler printed. Only
a proof without faults is kept. Its name is a hash of everything that it depends on: the kernel's
text with every header that it includes, its rows of the list, the proofs of its loops, the target,
the compiler's files, and the text of the scripts that prove. An entry that is damaged is proved
again, so a lost or broken cache costs time and nothing else. The folder is `$FIZEAU_CHECK_CACHE`,
or `fizeau-checks` in the user's cache.
"""

import hashlib
import json
import os
import pathlib
import re
import tempfile
import time

# Entries that no check has asked for in this many days are removed.
DAYS = 30
# Variables that change what a compiler reads or does.
VARIABLES = ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "NVCC_APPEND_FLAGS",
             "NVCC_PREPEND_FLAGS", "NVCC_CCBIN")


def folder():
    """Where verdicts are kept."""
    if named := os.environ.get("FIZEAU_CHECK_CACHE"):
        return pathlib.Path(named)
    caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(caches) / "fizeau-checks"


def digest(value):
    """A hash of any value that JSON has."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def of_files(paths):
    """A hash of the names and contents of files; a folder counts with everything below it."""
    files = set()
    for path in map(pathlib.Path, paths):
        files |= {path} if path.is_file() else {one for one in path.rglob("*") if one.is_file()}
    # Python writes what it compiled beside its modules.
    files = {path for path in files if "__pycache__" not in path.parts}
    assert files, f"no file of a compiler in {list(map(str, paths))}"
    hashes = []
    for path in sorted(files):
        with path.open("rb") as file:
            hashes.append((path.name, hashlib.file_digest(file, "sha256").hexdigest()))
    return digest(hashes)


INCLUDE = re.compile(r"^[ \t]*#[ \t]*include(?:_next)?\b[ \t]*(.*)$", re.M)


def included(source, headers):
    """The texts of a file and of every header that it includes, directly or not, by name.

    A header in angle brackets that `headers` lacks belongs to the compiler.
    """
    texts, left = {}, [source]
    while left:
        path = left.pop()
        name = os.path.relpath(path, headers)
        if name in texts:
            continue
        texts[name] = path.read_text()
        for what in INCLUDE.findall(texts[name]):
            match = re.match(r'"([^"]+)"|<([^>]+)>', what)
            if not match:
                raise RuntimeError(f"{path}: #include {what}: an include must name its file")
            found = [place / (match[1] or match[2]) for place in (path.parent, headers)]
            left += [one for one in found if one.is_file()][:1]
    return texts


class Verdicts:
    """The verdicts of one proving script, and of what it is made of."""

    def __init__(self, *scripts):
        self.folder = folder()
        self.scripts = [pathlib.Path(path).read_text() for path in (*scripts, __file__)]
        self.variables = {name: os.environ.get(name) for name in VARIABLES}
        self.reused = 0
        self.clean()

    def clean(self):
        """Removes entries, and halves of entries, that have not been used for long."""
        for path in self.folder.glob("*"):
            try:
                if time.time() - path.stat().st_mtime > DAYS * 86400:
                    path.unlink()
            except OSError:
                pass

    def rows(self, depends_on, prove):
        """Rows and faults of a proof: kept ones if nothing that it depends on has changed, else
        those that `prove` finds now."""
        key = digest([self.scripts, self.variables, depends_on])
        path = self.folder / f"{key}.json"
        try:
            kept = json.loads(path.read_text())
            if kept["of"] == digest([key, kept["rows"]]) and kept["rows"]:
                os.utime(path)
                self.reused += 1
                return kept["rows"], []
        except (OSError, ValueError, KeyError, TypeError):
            pass
        rows, faults = prove()
        if rows and not faults:
            self.keep(path, {"of": digest([key, rows]), "rows": rows})
        return rows, faults

    def keep(self, path, entry):
        """Writes an entry whole or not at all."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self.folder, delete=False) as file:
                json.dump(entry, file)
            os.replace(file.name, path)
        except OSError as error:
            print(f"a verdict was not kept: {error}")
