"""The mean wait of a single-server queue from two moments each of its arrivals and of its service, held to
queues whose waits are known exactly.

No formula of two moments is right for all queues that have them. This one is for the distributions that the
simulator draws from, the usual choice where two moments are all that is known: gamma below an exponential's
variability, hyperexponential with balanced means above it. It is exact

- for Poisson arrivals (Pollaczek and Khinchine),
- for exponential service: a fixed point, in closed form for bursty arrivals, else two steps of Newton's
  method from there (within .03%),
- in the limit of full load,

and interpolates between the three by fits to exact waits at loads of .1 to .95 and variabilities of .25 to 4,
where it is within 5%. Kraemer and Langenbach-Belz (`queueing.py`) are within 10% from a load of .5 on only:
their factor falls as exp(-c / load), as behind constant arrivals, where waits behind gamma ones fall as a
power of the load.

One function of plain numbers that calls no other, so that kernels compile it as it is.
"""

from __future__ import annotations

import math

STEPS = 2
LEAST_VARIABILITY = 1e-9
"""Arrivals below it are as good as constant."""
FITTED_FROM = 0.2
"""Arrivals more regular than this have the fitted exponent of these."""


def wait_in_services(load: float, arrival_scv: float, service_scv: float) -> float:
    """Mean wait as a multiple of the mean service time; infinite at full load and beyond.

    Variabilities are squared coefficients of variation.

    >>> wait_in_services(0.5, 1.0, 0.0)
    0.5
    >>> round(wait_in_services(0.3, 0.25, 0.25), 4)  # exactly .0276; .0186 by Kraemer and Langenbach-Belz
    0.0272
    """
    if not load < 1.0:
        return math.inf
    if load <= 0.0:
        return 0.0
    idle = 1.0 - load
    if arrival_scv == 1.0:
        return load / idle * (1.0 + service_scv) / 2.0
    # With exponential service the wait is met / (1 - met), where `met` is the share of tuples that find the
    # server busy: a fixed point of the arrivals' transform. Of hyperexponential ones it solves a quadratic.
    lean = 1.0 - 2.0 * load
    met = 1.0 - (lean + math.sqrt(lean * lean + 8.0 * load * idle / (1.0 + arrival_scv))) / 2.0
    if arrival_scv > 1.0:
        # At light load a tuple meets one other at most: how the arrivals vary beyond that counts less.
        odds = load / idle * math.exp(-1.5 * idle * math.log(arrival_scv)) * (1.0 + service_scv) / 2.0
        counted = 1.0 + (arrival_scv - 1.0) * odds / (1.0 + odds)
        return met / (1.0 - met) * (counted + service_scv) / (counted + 1.0)
    scv = max(arrival_scv, LEAST_VARIABILITY)
    for _ in range(STEPS):
        found = math.exp(-math.log1p(scv * (1.0 - met) / load) / scv)
        slope = found / (load + scv * (1.0 - met))
        met = (found - slope * met) / (1.0 - slope)
    by_exponential = met / (1.0 - met)
    if service_scv > 1.0:
        bent = 0.4 + 0.32 * (service_scv - 1.0) / (service_scv + 1.0)
        power = bent / math.sqrt(max(scv, FITTED_FROM))
        more = 0.6 * (1.0 - scv) / (1.0 + scv) * math.exp(power * math.log(idle / load))
        irregular = by_exponential * (1.0 + (service_scv - 1.0) * (1.0 + more) / (1.0 + scv))
        return min(irregular, load / idle * (scv + service_scv) / 2.0)  # exact waits are below equation 9's
    power = 1.0 - math.log(load) * (1.0 - scv) / (5.0 * scv + 0.6 * load)
    return by_exponential * math.exp(power * math.log((scv + service_scv) / (1.0 + scv)))
