"""Checks README.md, CONTRIBUTING.md and docs/ against the tree.

- A code block after a comment `<!-- examples/c/publish.c -->` is that file, byte for byte (the tests compile and run it).
- Every block of C, C++ and Python in README.md has such a comment: no example that nobody compiles.
- The worked examples of docs/protocol.md (`<!-- example TYPE -->`, a block of protobuf text, a block of hex): the bytes are
  what protoc makes of the text.
- docs/operations.md has a row for each configuration key that `hurrayd --help` names, and for no other.
- Relative links lead to files that are there.

usage: documents_test.py ROOT PROTOC [HURRAYD | --write]     --write puts the files' text and the bytes into the blocks first
"""

import pathlib
import re
import subprocess
import sys

root = pathlib.Path(sys.argv[1])
protoc = sys.argv[2]
write = sys.argv[3:] == ["--write"]
problems = []
compared = 0
documents = sorted([root / "README.md", root / "CONTRIBUTING.md", *root.glob("docs/**/*.md")])

for document in documents:
    name = document.relative_to(root)
    text = document.read_text(encoding="utf-8")
    if write:
        text = re.sub(
            r"^(<!-- (\S+) -->\n```\w*\n).*?^```$",
            lambda match: f"{match[1]}{(root / match[2]).read_text(encoding='utf-8')}```",
            text,
            flags=re.MULTILINE | re.DOTALL,
        )
        document.write_text(text, encoding="utf-8")
    for match in re.finditer(r"^(<!-- (\S+) -->\n)?```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        _, source, language, code = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        if source:
            compared += 1
            path = root / source
            if not path.is_file():
                problems.append(f"{name}:{line}: there is no {source}")
            elif path.read_text(encoding="utf-8") != code:
                problems.append(f"{name}:{line}: differs from {source}")
        elif language in ("c", "cpp", "python") and name.name == "README.md":
            problems.append(f"{name}:{line}: {language} code that names no file")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose):
        if not re.match(r"[a-z]+:", link) and not (document.parent / link).exists():
            problems.append(f"{name}: link to {link}, which is not there")


def encode(kind, text):
    return subprocess.run(
        [protoc, f"--proto_path={root / 'proto'}", f"--encode=hurray.broker.v1.{kind}", "hurray/broker/v1/broker.proto"],
        input=text.encode(), stdout=subprocess.PIPE, check=True,
    ).stdout


def rows(data):
    return "".join(data[at : at + 32].hex(" ") + "\n" for at in range(0, len(data), 32))


protocol_file = root / "docs/protocol.md"
protocol = protocol_file.read_text(encoding="utf-8")
example = re.compile(r"^(<!-- example (\w+) -->\n```\n(.*?)^```\n```\n)(.*?)^```$", re.MULTILINE | re.DOTALL)
if write:
    protocol = example.sub(lambda match: f"{match[1]}{rows(encode(match[2], match[3]))}```", protocol)
    protocol_file.write_text(protocol, encoding="utf-8")
examples = [match[1:] for match in (found.groups() for found in example.finditer(protocol))]
for kind, text, hexadecimal in examples:
    made = encode(kind, text)
    if made != bytes.fromhex(hexadecimal):
        problems.append(f"docs/protocol.md: example {kind}: protoc makes {made.hex(' ')}")
if not examples:
    problems.append("docs/protocol.md: no worked example was found")

if len(sys.argv) > 3 and not write:
    text = subprocess.run([sys.argv[3], "--help"], stdout=subprocess.PIPE, check=True, text=True).stdout
    real = set(re.findall(r"^  (\w+(?:\.\w+)+)", text, re.MULTILINE))
    told = set(re.findall(r"^\| `(\w+(?:\.\w+)+)` \|", (root / "docs/operations.md").read_text(encoding="utf-8"), re.MULTILINE))
    if not real or real != told:
        problems.append(f"docs/operations.md: keys {sorted(told)}, but hurrayd has {sorted(real)}")

print(*problems, sep="\n")
print(f"{len(documents)} documents, {compared} blocks compared with their files, {len(examples)} worked examples")
if compared == 0:
    problems.append("no block was compared")
sys.exit(1 if problems else 0)
