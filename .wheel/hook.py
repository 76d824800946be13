"""Makes bash_tool.py a package in a wheel, because only a package can say that it has types. An editable install stays what
pyproject.toml says: a folder on the path."""

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Package(BuildHookInterface):
    def initialize(self, version, build_data):
        if version == "standard":
            sources = {"bash_tool.py": "__init__.py", ".wheel/__main__.py": "__main__.py", ".wheel/py.typed": "py.typed"}
            build_data["force_include"].update({source: "bash_tool/" + name for source, name in sources.items()})
