"""The text of SPEC.md for some levels of conformance: python -m tests.tools.spec_for core,server"""

import sys

from tests.spec import spec_for

if __name__ == "__main__":
    print(spec_for(*sys.argv[1].split(","))[0], end="")
