"""What pyproject.toml cannot say: examples become a folder of the package, and the wheel's description is the
README without figures, guides and links, which lead nowhere outside a checkout.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

FIGURE = re.compile(r"!\[[^\]]*\]\((?!https?://)[^)]*\)\n\n(\*[^*]+\*\n\n)?")
LINK = re.compile(r"\[([^\]]*)\]\((?!https?://)[^)]*\)")

readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8").partition("\n## Guides\n")[0]

setup(
    packages=[*find_packages(include=["mooring", "mooring.*"]), "mooring.examples"],
    package_dir={"mooring.examples": "examples"},
    long_description=LINK.sub(r"\1", FIGURE.sub("", readme)),
    long_description_content_type="text/markdown",
)
