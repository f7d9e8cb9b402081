"""Doxygen's input filter: makes the plain comments of our headers those that Doxygen reads. Called with one file.

A comment in lines before a declaration documents it, one behind a declaration documents that, and the first comment of
a header documents the header. One line is added in front of the first comment, so warnings name
the line behind theirs.
"""

import re
import sys
from pathlib import Path

BEHIND = re.compile(r"^(?P<code>.*[;,{})]\s*)// ?(?P<text>.*)$")
SPECIAL = re.compile(r"([\\@<>#&])")


def filtered(text: str) -> str:
    """The header with `///` comments. What Doxygen would take for a command or for HTML is escaped."""
    lines, first = [], True
    for line in text.splitlines():
        stripped = line.lstrip()
        if stripped.startswith("//") and not stripped.startswith("// ---"):
            indent, comment = line[: len(line) - len(stripped)], SPECIAL.sub(r"\\\1", stripped[2:])
            if first:
                lines.append(f"{indent}/// \\file")
            lines.append(f"{indent}///{comment}".rstrip())
            first = False
        elif (behind := BEHIND.match(line)) and '"' not in line:
            comment = SPECIAL.sub(r"\\\1", behind["text"])
            lines.append(f"{behind['code']}///< {comment}")
        else:
            lines.append(line)
            first = first and not stripped
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(filtered(Path(sys.argv[1]).read_text()))
