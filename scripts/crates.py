#!/usr/bin/env python3
"""Draws the crates of the workspace and which uses which, from their Cargo.toml files.

    scripts/crates.py            writes docs/crates.svg
    scripts/crates.py --check    fails if docs/crates.svg is not what it would write

An arrow points from a crate to one that it uses. Arrows that follow from others are left out: where
A uses B and B uses C, the use of C by A is not drawn. Crates for tests alone are left out."""
import pathlib
import sys
import textwrap
import tomllib
from html import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/crates.svg"
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 236, 84, 28, 48, 16
LINE = 36  # characters of a line in a box
PORT = 16  # between the ends of two arrows at one box: two fit into the gap between boxes


def crates():
    """Each crate's name with its sentence and the crates of this workspace that it uses."""
    found = {}
    for path in [ROOT / "Cargo.toml", *sorted(ROOT.glob("crates/*/Cargo.toml"))]:
        manifest = tomllib.loads(path.read_text())
        package = manifest["package"]
        uses = set(manifest.get("dependencies", {}))
        found[package["name"]] = (package["description"], uses)
    reached, todo = set(), ["fizeau"]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += [used for used in found[name][1] if used in found]
    return {name: (what, uses & found.keys()) for name, (what, uses) in found.items() if name in reached}


def floor_of(name, graph):
    """How far a crate is below the program: one floor below the lowest crate that uses it."""
    return max((1 + floor_of(one, graph) for one in graph if name in graph[one][1]), default=0)


def drawn(name, graph):
    """The uses of a crate that do not follow from its other uses."""

    def all_of(one):
        return set().union(*({used} | all_of(used) for used in graph[one][1])) if graph[one][1] else set()

    direct = graph[name][1]
    return sorted(one for one in direct if not any(one in all_of(other) for other in direct - {one}))


def picture():
    graph = crates()
    floors = {}
    for name in sorted(graph):
        floors.setdefault(floor_of(name, graph), []).append(name)
    columns = max(map(len, floors.values()))
    wide = 2 * MARGIN + columns * WIDTH + (columns - 1) * GAP_X
    high = 2 * MARGIN + len(floors) * HEIGHT + (len(floors) - 1) * GAP_Y
    place = {}
    for floor, names in sorted(floors.items()):
        row = len(names) * WIDTH + (len(names) - 1) * GAP_X

        def middle_of_users(name):
            users = [place[one][0] for one in graph if name in drawn(one, graph)]
            return sum(users) / max(len(users), 1)

        # Below the crates that use them; leaves outermost, so that no arrow crosses them.
        for at, name in enumerate(sorted(names, key=lambda one: (middle_of_users(one), bool(graph[one][1])))):
            x = (wide - row) / 2 + at * (WIDTH + GAP_X)
            place[name] = (x, MARGIN + floor * (HEIGHT + GAP_Y))
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img" '
        f'font-family="DejaVu Sans, Verdana, sans-serif" font-size="11">',
        "<title>The crates of Fizeau: an arrow points to a crate that is used</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="#57606a"/></marker></defs>',
        f'<rect width="{wide}" height="{high}" fill="#ffffff"/>',
    ]
    for name in sorted(graph):
        (x, y), uses = place[name], drawn(name, graph)
        targets = sorted(uses, key=lambda one: place[one][0])
        for at, used in enumerate(targets):
            to_x, to_y = place[used]
            from_x = x + WIDTH / 2 + PORT * (at - (len(targets) - 1) / 2)
            users = sorted((one for one in graph if used in drawn(one, graph)), key=lambda one: place[one][0])
            end_x = to_x + WIDTH / 2 + PORT * (users.index(name) - (len(users) - 1) / 2)
            top, middle = y + HEIGHT, (y + HEIGHT + to_y) / 2
            out.append(
                f'<path d="M{from_x:.0f} {top:.0f}C{from_x:.0f} {middle:.0f} {end_x:.0f} {middle:.0f} '
                f'{end_x:.0f} {to_y:.0f}" fill="none" stroke="#57606a" marker-end="url(#tip)"/>'
            )
    for name in sorted(graph):
        x, y = place[name]
        out.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#f6f8fa" '
            f'stroke="#57606a"/><text x="{x + 10:.0f}" y="{y + 20:.0f}" font-size="13" '
            f'font-weight="bold" fill="#1f2328">{escape(name)}</text>'
        )
        for at, line in enumerate(textwrap.wrap(graph[name][0], LINE)):
            out.append(
                f'<text x="{x + 10:.0f}" y="{y + 38 + 14 * at:.0f}" fill="#1f2328">{escape(line)}</text>'
            )
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    if sys.argv[1:] == ["--check"]:
        if not PICTURE.exists() or PICTURE.read_text() != picture():
            sys.exit("docs/crates.svg is not what scripts/crates.py draws: run it")
        print("docs/crates.svg shows the crates as they are")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        PICTURE.write_text(picture())


if __name__ == "__main__":
    main()
