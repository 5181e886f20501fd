"""``python -m omkl.federated.flower``, the former name of the command ``omkl-federate``."""

import runpy

if __name__ == "__main__":
    runpy.run_module("omkl.federation.flower", run_name="__main__", alter_sys=True)
