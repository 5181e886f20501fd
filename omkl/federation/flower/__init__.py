"""A federation on Flower: the only folder that imports it (``pip install -e '.[flower]'``).

``python -m omkl.federation.flower`` runs one.
"""

import os

# Neither Flower nor Ray reports home; both look when they are imported.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
