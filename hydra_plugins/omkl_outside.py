"""The YAML folders of algorithms outside the package, as Hydra's own way to be told of them."""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class OutsideFolders(SearchPathPlugin):
    """Searched after omkl's own and before ``--config-dir``, as in ``omkl.conf``."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        from omkl import outside

        for folder in outside.conf_folders():
            search_path.append("omkl.outside", f"file://{folder}")
