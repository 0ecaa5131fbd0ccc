"""Lazy imports: modules that are loaded on first use of an attribute.

Arrow and NumPy take 50 MB, which a process that only plans, or only restores, does not need.
Python 3.15 has a statement for it (PEP 810); `importlib.util.LazyLoader` is not enough, because any
access to such a module, even by a second `import`, loads it.

If pandas is installed, Arrow's first conversion of Python values would load it, 35 MB more, to
check for a pandas Series.  Here Arrow does not find pandas until `to_pandas` or the like is called.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

__all__ = ["ARROW_AND_NUMPY", "load_later"]

# Packages before their modules.
ARROW_AND_NUMPY = ("numpy", "numpy.typing", "pyarrow", "pyarrow.compute", "pyarrow.json")

_loading = threading.RLock()


def load_later(names: Sequence[str] = ARROW_AND_NUMPY) -> None:
    """Makes `import` of these modules lazy: their first use loads them.

    `from … import` is a use.  Modules that are imported already stay as they are, and modules that
    are not installed fail on import as usual.

    Args:
        names: names of packages and modules; a package comes before its modules.
    """
    for name in names:
        package, _, last = name.rpartition(".")
        if name in sys.modules or (package and not isinstance(sys.modules.get(package), _Later)):
            continue
        where = sys.modules[package].__dict__["_later"] if package else None
        spec = PathFinder.find_spec(name, where.submodule_search_locations if where else None)
        if spec is None or spec.loader is None:
            continue
        module = sys.modules[name] = _Later(name, spec)
        if package:
            sys.modules[package].__dict__[last] = module


class _Later(ModuleType):
    """A module without contents until an attribute is used."""

    def __init__(self, name: str, spec: ModuleSpec) -> None:
        super().__init__(name)
        self.__dict__.update(__spec__=spec, _later=spec, _busy=False)

    def __getattr__(self, name: str) -> Any:
        with _loading:
            if isinstance(self, _Later):
                self._load(name)
        return getattr(self, name)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """Pickles the module by name, for functions that have it among their globals."""
        return import_module, (self.__name__,)

    def _load(self, name: str) -> None:
        facts = self.__dict__
        if facts["_busy"]:  # this thread is importing the module right now
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} yet")
        facts["_busy"] = True
        spec: ModuleSpec = facts["_later"]
        try:
            for key, value in module_from_spec(spec).__dict__.items():
                facts.setdefault(key, value)
            facts.update(__loader__=spec.loader, __package__=spec.parent)
            assert spec.loader is not None
            spec.loader.exec_module(self)
        except BaseException:
            facts["_busy"] = False
            raise
        for key in ("_busy", "_later"):
            facts.pop(key)
        object.__setattr__(self, "__class__", ModuleType)
        if self.__name__ == "pyarrow":
            _without_pandas(self)


def _without_pandas(arrow: ModuleType) -> None:
    """Makes Arrow look for pandas now and not find it; it looks only once."""
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        arrow.array([0])
    finally:
        sys.meta_path.remove(_NoPandas)


class _NoPandas(MetaPathFinder):
    """Hides pandas from imports."""

    @classmethod
    def find_spec(cls, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("not to be loaded yet", name=name)
