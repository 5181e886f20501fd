"""``python -m omkl.federated.flower``, which is called ``omkl.federation.flower`` now."""

import runpy
import sys

print("omkl: python -m omkl.federation.flower is the new name of this command", file=sys.stderr)
runpy.run_module("omkl.federation.flower", run_name="__main__", alter_sys=True)
