"""What `python -m bash_tool` runs where a wheel is installed: there bash_tool is a package, because only a package can say
that it has types."""

import os

from bash_tool import main

os._exit(main())  # all is written, and the interpreter's own clean-up takes 20 ms
