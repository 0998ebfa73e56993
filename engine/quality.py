"""What the samples of an arm say of themselves: drift, modes, autocorrelation, the share that was set aside."""

from __future__ import annotations

import math

import numpy as np

from aisp.engine.statistics import ByRound, Floats, Ints, by_round
from aisp.store.record import Quality
from aisp.store.samples import Samples

FEWEST_TO_TELL = 20  # samples, or pairs of them, below which neither modes nor autocorrelation are reported
MODE_SHARE = 0.08  # of the samples, in the smaller of two modes; fewer are outliers
FEWEST_IN_MODE = 8  # samples
MODE_GAP = 0.02  # relative distance of two modes; nearer ones move no verdict
MODE_STEPS = 2.5  # steps of the clock between two modes; nearer ones are the clock's own steps
MODE_EXPLAINED = 0.88  # share of the variance between the modes: 0.64 for a normal, 0.75 for a uniform distribution
MODE_VALLEY = 0.2  # samples in the middle third between the modes, in units of the smaller mode
MODE_SPREAD = 0.2  # range of the medians of processes in one mode, in units of the distance of the modes


def quality(samples: Samples, *, resolution_ms: float | None, overhead_ms: float | None) -> Quality:
    """Drift, autocorrelation, modes and the share set aside. Each is None where too little was measured to tell.

    Args:
        samples: of one arm, as they were taken.
        resolution_ms: smallest step of the clock that took them.
        overhead_ms: what an event pair reads beyond the calls, which was taken off.
    """
    kept = samples.discarded == 0
    modes = _modes(samples.device_ms[kept], samples.replica[kept], resolution_ms or 0.0)
    return Quality(
        drift=_drift(by_round(samples.device_ms[kept], samples.replica[kept], samples.round[kept])),
        autocorrelation=_autocorrelation(samples),
        low_mode_ms=modes[0] if modes else None,
        high_mode_ms=modes[1] if modes else None,
        high_share=modes[2] if modes else None,
        throttled_share=float((samples.discarded == 1).mean()) if len(samples) else None,
        resolution_ms=resolution_ms,
        overhead_ms=overhead_ms,
    )


def _drift(arm: ByRound) -> float | None:
    """Median over replicas of the change from the first to the last third of the rounds."""
    drifts = []
    for replica in np.unique(arm.replica):
        medians = np.log(arm.median[arm.replica == replica])
        third = len(medians) // 3
        if third:
            drifts.append(float(np.median(medians[-third:]) - np.median(medians[:third])))
    return math.expm1(float(np.median(drifts))) if drifts else None


def _autocorrelation(samples: Samples) -> float | None:
    """Lag one, of the log times within turns, pooled over turns.

    Deviations are from the turn's own mean, which alone gives successive samples of a turn of n a correlation of -1/n;
    that is added back.
    """
    kept = samples.discarded == 0
    if kept.sum() < FEWEST_TO_TELL:
        return None
    _, turn = np.unique(samples.replica * (1 << 32) + samples.round, return_inverse=True)
    order = np.argsort(turn, kind="stable")
    turn, kept, logs = turn[order], kept[order], np.log(samples.device_ms[order])
    # One interrupt in a turn is not a pattern: what lies far out is drawn in to three times the middle half's width.
    middle = np.median(logs[kept])
    reach = 3 * float(np.subtract(*np.quantile(logs[kept], (0.75, 0.25))))
    logs = np.clip(logs, middle - reach, middle + reach) if reach > 0 else logs
    count = np.bincount(turn, weights=kept)
    mean = np.bincount(turn, weights=np.where(kept, logs, 0.0)) / np.maximum(count, 1)
    deviation = np.where(kept, logs - mean[turn], 0.0)
    freedom = float(np.maximum(count - 1, 0).sum())
    variance = float((deviation**2).sum()) / freedom if freedom else 0.0
    pairs = (turn[1:] == turn[:-1]) & kept[1:] & kept[:-1]
    if pairs.sum() < FEWEST_TO_TELL or variance < 1e-18:
        return None
    ratio = float((deviation[1:] * deviation[:-1])[pairs].mean()) / variance
    ratio += float((1 / count[turn[1:]][pairs]).mean())
    return float(np.clip(ratio, -1.0, 1.0))


def _modes(times_ms: Floats, replica: Ints, resolution_ms: float) -> tuple[float, float, float] | None:
    """Low mode and high mode in ms and the share of samples in the high one, where the samples fall into two.

    The split of the sorted logs, without the outermost per cent on each side, that leaves least variance within its
    two parts. Two parts are two modes when they explain nearly all variance, are far enough apart, hold enough samples
    each, and when there is a valley between: a drift has none. Processes of which each keeps to one of the parts must
    agree there: five processes at five speeds fall into two parts as well.
    """
    if len(times_ms) < FEWEST_TO_TELL:
        return None
    logs = np.log(np.sort(times_ms))
    trim = len(logs) // 100
    logs = logs[trim : len(logs) - trim]
    count = len(logs)
    centred = logs - logs.mean()
    total = float((centred**2).sum())
    if total <= 0:
        return None
    low_count = np.arange(1, count)
    # Between-group sum of squares of a split after the k-th value, from the running sum of the centred logs.
    between = np.cumsum(centred)[:-1] ** 2 * (1 / low_count + 1 / (count - low_count))
    split = int(np.argmax(between)) + 1
    low, high = float(np.median(logs[:split])), float(np.median(logs[split:]))
    smaller = min(split, count - split)
    third = (high - low) / 3
    valley = int(((logs > low + third) & (logs < high - third)).sum())
    if (
        between[split - 1] < MODE_EXPLAINED * total
        or smaller < max(MODE_SHARE * count, FEWEST_IN_MODE)
        or math.expm1(high - low) < MODE_GAP
        or math.exp(high) - math.exp(low) < MODE_STEPS * resolution_ms
        or valley > MODE_VALLEY * smaller
        or _spread_in_modes(np.log(times_ms), replica, low, high) > MODE_SPREAD * (high - low)
    ):
        return None
    return math.exp(low), math.exp(high), (count - split) / count


def _spread_in_modes(logs: Floats, replica: Ints, low: float, high: float) -> float:
    """The widest range of the medians of those replicas that keep to the same mode."""
    slow = logs > (low + high) / 2
    medians: dict[bool, list[float]] = {False: [], True: []}
    for number in np.unique(replica):
        share = float(slow[replica == number].mean())
        if not 0.1 < share < 0.9:
            medians[share > 0.5].append(float(np.median(logs[replica == number])))
    return max((max(mode) - min(mode) for mode in medians.values() if mode), default=0.0)
