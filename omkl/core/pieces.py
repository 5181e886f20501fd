"""Pieces of compiled code: linked into what calls them, and never run alone.

Numba optimises every function and makes machine code of it before its callers are compiled. A
function that is always inlined is optimised again with each of these, and nobody calls its own
machine code: a third of the seconds that a learner takes to compile would go into that. Here it
stays as it was lowered until the entry point that it is part of is optimised as a whole. Nor is
what it calls linked into it: all that an entry point is made of is linked once, and not once for
every level that it lies below.

A piece has no environment at run time: it may raise exceptions with constant arguments, but may
not hold Python objects. What is compiled without reference counts (``jit``) cannot hold any.
"""

from __future__ import annotations

from typing import Any

from llvmlite.binding import Linkage
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.typed_passes import AnnotateTypes


class _NoEnvironment:
    """What stands for the code generator where Numba hands over the environment of a function."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Nothing: the symbol is in no machine code yet."""


class Piece(JITCodeLibrary):
    """The code of one function, to be linked."""

    codegen = _NoEnvironment()

    def finalize(self) -> None:
        """Nothing is linked or optimised yet."""
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = "linkonce_odr"  # may be in several entry points
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """The piece and all that it is made of, for an entry point."""
        self._ensure_finalized()
        module = self._final_module.clone()
        met, waiting = {self}, list(self._linking_libraries)
        while waiting:
            library = waiting.pop(0)
            if library in met:
                continue
            met.add(library)
            if isinstance(library, Piece):
                waiting += library._linking_libraries
                module.link_in(library._final_module, preserve=True)
            else:
                module.link_in(library._get_module_for_linking(), preserve=True)
        return module

    def get_pointer_to_function(self, name: str) -> int:
        """0: there is no machine code."""
        self._ensure_finalized()
        return 0


@register_pass(mutates_CFG=False, analysis_only=True)
class KeepForLinking(AnalysisPass):
    """Make a function that is compiled a ``Piece``."""

    _name = "keep_for_linking"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = Piece(state.targetctx.codegen(), state.func_id.func_qualname)
        return False


class PieceCompiler(CompilerBase):
    """Numba's compiler, up to machine code."""

    def define_pipelines(self) -> list[Any]:
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.add_pass_after(KeepForLinking, AnnotateTypes)
        manager.finalize()
        return [manager]
