"""SPEC.md for others.

python -m tests.tools.spec_for core,server    its text for some levels of conformance
python -m tests.tools.spec_for --examples     its examples as JSON, for a runner in any language
"""

import json
import sys

from tests.spec import dumped_examples, spec_for

if __name__ == "__main__":
    if sys.argv[1:] == ["--examples"]:
        print(json.dumps(dumped_examples(), indent=1))
    elif sys.argv[2:] or sys.argv[1:] in ([], ["--help"]):
        sys.exit(__doc__)
    else:
        print(spec_for(*sys.argv[1].split(","))[0], end="")
