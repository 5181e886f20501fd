"""Federations of parties apart: the file of each client stays on its machine.

``omkl-federate`` runs them. ``terms`` is what server and clients agree on, ``rows`` a client's file
and its scaling, ``data_owner`` a client and ``coordinator`` the server, each with the files that
survive a kill, and no network. ``transport`` carries messages over TLS with the keys of ``keys``;
``server`` and ``client`` converse; ``results`` writes the run and the models. ``trial`` starts all
parties on this machine, ``flower`` does without all this what Flower can: it is for whoever has it.
"""
