"""The two apps of the federation. All that they do is in omkl."""

from omkl.experiment import deployed

server = deployed.server_app()
client = deployed.client_app()
