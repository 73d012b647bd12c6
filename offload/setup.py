"""Build outside the sources: setuptools' own folders would stay in them."""

import atexit
import shutil
from tempfile import mkdtemp

from setuptools import setup
from setuptools.command.build_py import build_py

outside = mkdtemp()
atexit.register(shutil.rmtree, outside, ignore_errors=True)


class Modules(build_py):
    """The package's modules without this file, which lies among them."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        found = super().find_package_modules(package, package_dir)
        return [module for module in found if module[1] != "setup"]


setup(
    cmdclass={"build_py": Modules},
    options={"build": {"build_base": outside}, "egg_info": {"egg_base": outside}},
)
