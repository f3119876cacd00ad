"""The series that experiments replay are what their source says."""

from __future__ import annotations

import numpy as np

from lab.networks.measured_series import planetlab_series, seattle_series


def test_shipped_series_agree_with_what_their_source_says() -> None:
    assert planetlab_series().shape == (18, 130, 130)
    seattle = seattle_series()
    assert seattle.shape == (200, 40, 40)
    assert 0.1 < np.median(seattle) / 1000 < 0.4
    assert np.any(seattle[:, 0, 1:] == 0.0)
