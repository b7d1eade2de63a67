"""Networks and their cells. Knows nothing of devices."""
