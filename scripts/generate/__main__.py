"""Write everything that is made from the code."""

from __future__ import annotations

from pathlib import Path

from scripts.generate.files import FOLDERS, generated

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Write the files, and remove those of these folders that nothing makes any more."""
    files = generated()
    for folder in FOLDERS:
        for path in (ROOT / folder).glob("*"):
            if path.relative_to(ROOT).as_posix() not in files:
                path.unlink()
    for name, text in files.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
