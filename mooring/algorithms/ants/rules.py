"""The arithmetic of cells and scouts, as functions of plain numbers and sequences.

The protocol's machines call them as they are; the kernels compile the same functions. Each stands alone (no
function here calls another), so that both is possible.

A task of a chain is a row of the columns below, a side is another flow into one of its tasks: the other input
of a join or union, which comes along wherever that task goes. What a server has to do is kept as totals over
its flows (equations 4 to 8 of the ants paper), in core-seconds, since fixed load changes a site's speed.
"""

from __future__ import annotations

import math
from typing import Any

RATE, WORK, WORK_VARIANCE, PATH, GAIN, GAIN_VARIANCE, WEIGHT, FIXED, MEMORY = range(9)
"""Of a task: messages per second if they enter a site here; core-seconds of one, mean and variance;
core-seconds until its result is there; tuples passed on per message, mean and variance; by how much a
second's delay here delays the mean query; cores at rate zero; MB."""
SIDE_TASK, SIDE_RATE, SIDE_WORK, SIDE_WORK_VARIANCE, SIDE_GAIN, SIDE_WEIGHT = range(6)
"""Of a side: which task of the chain it enters, and the same of its messages."""
MODULUS = 2147483647
TOTALS = 8
"""Of flows: rate, load, its square, squared rates, rates by variability, weight; then fixed cores and MB."""


def next_random(state: int) -> int:
    """Lehmer's generator; `state / MODULUS` is the number. An ant carries its own."""
    return (state * 48271) % MODULUS


def ant_seed(seed: int, chain: int, number: int) -> int:
    """Where an ant's generator begins; never zero."""
    state = (seed * 1000003 + chain * 7919 + number * 104729 + 12345) % (MODULUS - 1) + 1
    for _ in range(4):
        state = (state * 48271) % MODULUS
    return state


def segment_flow(
    tasks: Any,
    sides: Any,
    first: int,
    last: int,
    shared: int,
    arrival_variability: float,
    trigger_s: float,
) -> Any:
    """What the tasks first to last add to a site's totals when they are there together, the core-seconds
    until a message's result is there, and the cores that each task uses itself, by its weight.

    A message passes all of them before the next one begins (equation 3). In micro-batches (`trigger_s` > 0)
    each of them has batches of its own, and the weights of all count. The first `shared` of them run there
    already for somebody else: they add nothing but the queries that wait for them (section 3.10).
    """
    rate = load = square = squared_rates = irregular = weight = 0.0
    fixed = memory = path = weighted = behind = behind_variance = 0.0
    for k in range(last, first - 1, -1):
        path += tasks[k][PATH]
        own_weight, own_load = tasks[k][WEIGHT], tasks[k][FIXED] + tasks[k][RATE] * tasks[k][WORK]
        for n in range(len(sides)):
            if sides[n][SIDE_TASK] == k and sides[n][SIDE_RATE] > 0.0:
                own_weight += sides[n][SIDE_WEIGHT]
                own_load += sides[n][SIDE_RATE] * sides[n][SIDE_WORK]
        weighted += own_weight * own_load
        if trigger_s > 0.0 or k == first:
            weight += tasks[k][WEIGHT]
        if k < first + shared:
            for n in range(len(sides)):
                if sides[n][SIDE_TASK] == k and sides[n][SIDE_RATE] > 0.0:
                    weight += sides[n][SIDE_WEIGHT]
            continue
        fixed += tasks[k][FIXED]
        memory += tasks[k][MEMORY]
        for n in range(len(sides)):
            if sides[n][SIDE_TASK] == k and sides[n][SIDE_RATE] > 0.0:
                mean = sides[n][SIDE_WORK] + sides[n][SIDE_GAIN] * behind
                variance = sides[n][SIDE_WORK_VARIANCE] + sides[n][SIDE_GAIN] * behind_variance
                own = sides[n][SIDE_RATE]
                rate += own
                load += own * mean
                square += own * (mean * mean + variance)
                squared_rates += own * own
                irregular += own
                weight += sides[n][SIDE_WEIGHT]
        mean = tasks[k][WORK] + tasks[k][GAIN] * behind
        variance = tasks[k][WORK_VARIANCE] + tasks[k][GAIN] * behind_variance
        variance += tasks[k][GAIN_VARIANCE] * behind * behind
        behind, behind_variance = mean, variance
    if first + shared <= last:
        own = tasks[first + shared][RATE]
        rate += own
        load += own * behind
        square += own * (behind * behind + behind_variance)
        squared_rates += own * own
        irregular += own * arrival_variability
    return rate, load, square, squared_rates, irregular, weight, fixed, memory, path, weighted


def moments_of(
    capacity_cores: float,
    rate: float,
    load: float,
    square: float,
    squared_rates: float,
    irregular: float,
    fixed: float,
) -> tuple[float, float, float, float, float]:
    """Of a site's totals as one queue (equations 4 to 8): utilisation, seconds of a message's service, how
    irregularly messages come and are served, and how irregularly they leave."""
    speed = capacity_cores - fixed
    if rate <= 1e-9 or squared_rates <= 0.0:  # nothing, or what rounding leaves of flows that have gone
        return 0.0, 0.0, 1.0, 0.0, 1.0
    if speed <= 0.0:
        return math.inf, math.inf, 1.0, 0.0, 1.0
    rho = load / speed
    mean = load / rate
    service_scv = max(square / rate / (mean * mean) - 1.0, 0.0) if mean * mean > 0.0 else 0.0
    idle = 1.0 - min(rho, 1.0)
    weight = 1.0 / (1.0 + 4.0 * idle * idle * (rate * rate / squared_rates - 1.0))
    arrival_scv = 1.0 - weight + weight * irregular / rate
    busy = min(rho, 1.0) * min(rho, 1.0)
    leaving = busy * service_scv + (1.0 - busy) * arrival_scv
    return rho, mean / speed, arrival_scv, service_scv, leaving


def batch_s(capacity_cores: float, load: float, fixed: float, trigger_s: float) -> float:
    """After what time the last micro-batch of a site ends: they share its cores for what comes within a
    trigger, and for what every batch costs. Infinite where it cannot keep up."""
    used = (load + fixed) / capacity_cores if capacity_cores > 0.0 else math.inf
    return trigger_s * used if used < 1.0 else math.inf


def batch_cost(
    capacity_cores: float,
    there: float,
    weight_there: float,
    more: float,
    weight: float,
    weighted: float,
    limit: float,
    trigger_s: float,
) -> tuple[float, float]:
    """What micro-batches that use so many more cores cost at a site, in seconds of the mean query, and the
    part of it that others have. Infinite beyond the limit.

    Batches run one after the other in any order, each at one core at most: before a batch come half of the
    others in the mean (`model/load/micro_batches.py`). Weights are of results whose last batch is here:
    before that, a batch's time is hidden by the trigger that its reader waits for.

    weighted: the cores that each of the new ones uses itself, by its weight.
    """
    if not there + more < min(limit, 1.0) * capacity_cores:
        return math.inf, 0.0
    half_s = trigger_s / (2.0 * capacity_cores)
    effect = half_s * weight_there * more
    itself = weighted * (2.0 * max(capacity_cores, 1.0) - 1.0)
    return half_s * (weight * (there + more) + itself) + effect, effect


def is_too_slow(limit_s: float, wait_s: float, own_s: float, rate: float, load: float, speed: float) -> bool:
    """Whether the seconds that new tasks take at a site, and those that what is there already takes with
    them, reach the delay threshold together (equation 11); 0: there is none.

    rate, load: of what is there already, as totals have them.
    """
    there_s = wait_s + load / rate / speed if rate > 1e-9 else 0.0
    return limit_s > 0.0 and not wait_s + own_s + there_s < limit_s


def first_weights(through_s: Any, sharpness: float) -> Any:
    """Of a cell's neighbours before any ant has come by: shorter ways through them are likelier; 0: uniform.

    through_s: latency to the destination by way of each.
    """
    shortest = min(through_s) + 1e-4
    raw = [(shortest / (each + 1e-4)) ** sharpness for each in through_s]
    total = sum(raw)
    return [each / total for each in raw]


def slot_of(weights: Any, is_open: Any, number: float, astray: float) -> int:
    """The slot that a random number from 0 to 1 stands for, among the open ones: by their weights, but for
    the share `astray`, in which all are alike."""
    total, count = 0.0, 0
    for slot in range(len(weights)):
        if is_open[slot]:
            total += weights[slot]
            count += 1
    chosen, passed = -1, 0.0
    for slot in range(len(weights)):
        if is_open[slot]:
            chosen = slot
            passed += (1.0 - astray) * weights[slot] + astray * total / count
            if passed > number * total:
                break
    return chosen


def is_good_trip(
    trip_s: float, mean_s: float, variance: float, count: int, trusted: int, confidence: float
) -> bool:
    """Whether a trip counts: below the mean plus its confidence interval (section 3.5), and the first few."""
    if count < trusted:
        return True
    return trip_s <= mean_s + confidence * math.sqrt(variance / min(count, 50)) + 1e-12


def with_trip(trip_s: float, mean_s: float, variance: float, count: int) -> tuple[float, float]:
    """Mean and variance of trips once another one counts; late ones count a tenth at least."""
    part = max(1.0 / (count + 1), 0.1)
    off = trip_s - mean_s
    return mean_s + part * off, variance + part * (off * off - variance)


def reinforced(weight: float, strength: float, is_chosen: bool) -> float:
    """Equations 1 and 2; a negative strength discourages, and leaves it to the caller to make the sum 1."""
    if strength < 0.0:
        return weight * (1.0 + strength) if is_chosen else weight
    return weight * (1.0 - strength) + (strength if is_chosen else 0.0)


def leaving_variability(rate: float, total_rate: float, variability: float) -> float:
    """Of one flow among all messages that leave a server so irregularly (splitting)."""
    if total_rate <= 0.0:
        return 1.0
    part = min(rate / total_rate, 1.0)
    return part * variability + 1.0 - part
