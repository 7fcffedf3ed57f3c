"""Mutation testing: small random changes to the core, one at a time, each of which the tests of its file must notice.

    python -m scripts.mutants --count 60 --seed 1 --rooms routes failover     as JSON; progress goes to stderr

A change is made in a copy of the tree, never in the tree. Its judges are the unit tests of the file (`tests/unit`
mirrors `meshwatchd`), and where those notice nothing the tests given with --then. mutmut and cosmic-ray make every
mutant of a file and run one command for all of them: hours for the core. Here a sample says how much survives, and
which.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "meshwatchd" / "core"
LIMIT_S = 120
"""Of one run of tests. A mutant that loops for ever is noticed by that."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}

_DECLARATIONS = {"frozen", "kw_only", "slots", "strict", "default"}
"""Arguments by which classes are declared and lengths compared: without them no decision changes."""


def places(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node of a module that can be changed, in a fixed order; annotations and declarations are left alone."""
    for node in ast.iter_child_nodes(tree):
        if _is_place(node):
            yield node
        if isinstance(node, ast.AnnAssign):
            yield from places(ast.Expr(node.value)) if node.value else ()
        elif isinstance(node, ast.FunctionDef):
            yield from places(ast.Module(body=node.body, type_ignores=[]))
        elif not (isinstance(node, ast.keyword) and node.arg in _DECLARATIONS):
            yield from places(node)


def _is_place(node: ast.AST) -> bool:
    match node:
        case ast.Compare():
            return type(node.ops[0]) in _COMPARISONS
        case ast.BinOp():
            return type(node.op) in _ARITHMETIC
        case ast.BoolOp() | ast.IfExp() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Constant():
            return isinstance(node.value, bool | int)
        case _:
            return False


def change(node: ast.AST) -> str:
    """Change one node in place, and say how."""
    before = ast.unparse(node)
    match node:
        case ast.Compare():
            node.ops[0] = _COMPARISONS[type(node.ops[0])]()
        case ast.BinOp():
            node.op = _ARITHMETIC[type(node.op)]()
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.IfExp():
            node.body, node.orelse = node.orelse, node.body
        case ast.UnaryOp():
            node.op, node.operand = ast.Not(), ast.UnaryOp(op=ast.Not(), operand=node.operand)
        case ast.Constant(value=bool() as value):
            node.value = not value
        case ast.Constant(value=int() as value):
            node.value = value + 1
    return f"{before}  ->  {ast.unparse(node)}"


def tests_of(module: Path, tree: Path) -> list[str]:
    """The unit tests of a module of the core, in another tree."""
    folder = tree / "tests" / "unit" / module.relative_to(ROOT / "meshwatchd").parent
    return [
        str(path) for path in sorted({*folder.glob(f"test_{module.stem}.py"), *folder.glob(f"test_{module.stem}_*.py")})
    ]


def is_noticed(tree: Path, tests: Sequence[str]) -> bool:
    """Whether a run of tests fails."""
    command = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not lab", *tests)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{tree}:{tree}/netns-lab", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ran = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=LIMIT_S, check=False)
        return bool(ran.returncode)
    except subprocess.TimeoutExpired:
        return True


def draw(rooms: Sequence[str], count: int, dice: random.Random) -> list[tuple[Path, int]]:
    """A sample of all places of the rooms: file, and number of the place in it."""
    files = [path for room in rooms for path in sorted((CORE / room).glob("*.py")) if path.stem != "__init__"]
    everything = [(path, number) for path in files for number, _ in enumerate(places(ast.parse(path.read_text())))]
    return dice.sample(everything, min(count, len(everything)))


def main() -> int:
    """Exit status: 0 when at least --least percent were noticed."""
    parser = argparse.ArgumentParser(description="random mutants of meshwatchd/core")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=float, default=90.0, help="percent that must be noticed (default: %(default)s)")
    parser.add_argument("--rooms", nargs="+", default=sorted(path.name for path in CORE.iterdir() if path.is_dir()))
    parser.add_argument("--then", nargs="*", default=(), help="tests to ask where the unit tests notice nothing")
    options = parser.parse_args()
    survivors: list[str] = []
    sample = draw(options.rooms, options.count, random.Random(options.seed))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder) / "tree"
        generated = shutil.ignore_patterns(".git", ".venv", "__pycache__", "build", ".*_cache", ".hypothesis")
        shutil.copytree(ROOT, tree, ignore=generated)
        for done, (path, number) in enumerate(sample, 1):
            module = ast.parse(path.read_text())
            place = list(places(module))[number]
            said = f"{path.relative_to(ROOT)}:{getattr(place, 'lineno', 0)}: {change(place)}"
            target = tree / path.relative_to(ROOT)
            target.write_text(ast.unparse(ast.fix_missing_locations(module)))
            noticed = is_noticed(tree, tests_of(path, tree)) or (options.then and is_noticed(tree, options.then))
            target.write_text(path.read_text())
            if not noticed:
                survivors.append(said)
            print(f"{done}/{len(sample)} {'noticed' if noticed else 'SURVIVED'} {said}", file=sys.stderr, flush=True)
    noticed_percent = 100 * (1 - len(survivors) / max(1, len(sample)))
    print(json.dumps({"mutants": len(sample), "noticed_percent": round(noticed_percent, 1), "survivors": survivors}))
    return 0 if noticed_percent >= options.least else 1


if __name__ == "__main__":
    sys.exit(main())
