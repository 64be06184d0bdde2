"""Known faults of the packages in Cargo.lock, by a copy of RustSec's database of advisories
(github.com/RustSec/advisory-db). Prints a line for each that applies; the exit code is 1 where one is no
notice ("unmaintained", "unsound"). `cargo audit` reads the same database, but has to be compiled first.

    git clone --depth 1 https://github.com/RustSec/advisory-db
    python3 scripts/advisories.py advisory-db [Cargo.lock]"""

import pathlib
import re
import sys
import tomllib


def numbers(version):
    """A version as a key that orders: releases after their own previews."""
    release, _, preview = version.split("+")[0].partition("-")
    parts = [int(part) for part in release.split(".")]
    words = [(0, int(word), "") if word.isdigit() else (1, 0, word) for word in preview.split(".") if preview]
    return parts + [0] * (3 - len(parts)), not preview, words


def fits(version, requirement):
    """Whether a version fits one requirement of Cargo: `>=1.2, <2`, `^0.3.4`, `=1.0.0`."""
    own = numbers(version)
    for part in requirement.split(","):
        operator, bound = re.fullmatch(r"\s*(>=|<=|>|<|=|\^|~)?\s*([0-9][^\s]*)\s*", part).groups()
        least = numbers(bound)
        if operator in (None, "^", "~"):
            given = [int(number) for number in bound.split("-")[0].split(".")]
            fixed = 2 if operator == "~" else 1 + next((at for at, number in enumerate(given) if number), 0)
            fixed = min(fixed, len(given))
            if own < least or own[0][:fixed] != least[0][:fixed]:
                return False
        elif not {">=": own >= least, "<=": own <= least, ">": own > least, "<": own < least,
                  "=": own == least}[operator]:
            return False
    return True


def advisory(path):
    """The front matter of an advisory: TOML in a fenced block at the head of a Markdown file."""
    return tomllib.loads(re.search(r"```toml\n(.*?)\n```", path.read_text(), re.DOTALL)[1])


def main():
    database = pathlib.Path(sys.argv[1])
    lock = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "Cargo.lock")
    packages = [one for one in tomllib.loads(lock.read_text())["package"] if "source" in one]
    read, found, faults = 0, [], 0
    for package in packages:
        name, version = package["name"], package["version"]
        for path in sorted(database.glob(f"crates/{name}/RUSTSEC-*.md")):
            read += 1
            told = advisory(path)
            head, versions = told["advisory"], told.get("versions", {})
            safe = versions.get("patched", []) + versions.get("unaffected", [])
            if "withdrawn" in head or any(fits(version, one) for one in safe):
                continue
            kind = head.get("informational", "fault")
            faults += kind == "fault"
            found.append(f"{kind}: {name} {version}: {head['id']} of {head['date']}")
    print("\n".join(found + [f"{len(packages)} packages, {read} advisories on them read, {len(found)} apply"]))
    if not any(database.glob("crates/*/RUSTSEC-*.md")):
        sys.exit(f"{database}: no advisory is there")
    return int(faults > 0)


assert fits("1.2.3", ">=1.2, <2") and not fits("2.0.0", ">=1.2, <2") and fits("0.3.9", "^0.3.4")
assert not fits("0.4.0", "^0.3.4") and fits("1.0.0", "> 1.0.0-rc.1") and not fits("1.0.0-rc.1", ">=1.0.0")
sys.exit(main())
