"""GPU state, from a driver that answers, half answers, or does not. What is not known is a gap, never a zero."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from aisp.engine.telemetry import Readings
from tests.engine.fake_nvml import FakeNvml, ask

LOOK = """
nvml = Nvml()
told["note"], told["driver"], told["count"] = nvml.note, nvml.driver, nvml.count
told["devices"] = devices(nvml)
readings = Readings()
told["answered"] = nvml.read(0, readings)
told["readings"] = shown(readings)
told["processes"] = None if nvml.processes(0) is None else sorted(nvml.processes(0))
"""
EVERY_CALL = (
    *("DeviceGetClockInfo.sm", "DeviceGetClockInfo.memory", "DeviceGetTemperature", "DeviceGetPowerUsage"),
    *("DeviceGetCurrentClocksEventReasons", "DeviceGetCurrentClocksThrottleReasons"),
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> FakeNvml:
    return FakeNvml(tmp_path_factory.mktemp("nvml"))


def errors(code: int, *calls: str) -> str:
    return "".join(f"error.{call} {code}\n" for call in calls)


# -- a driver that answers ---------------------------------------------------------------------------------------------


def test_a_healthy_gpu_is_described_and_read(driver: FakeNvml) -> None:
    told = driver.ask(LOOK)
    assert (told["note"], told["driver"], told["count"]) == ("", "580.65.06", 1)
    assert told["devices"] == [
        {
            "index": 0,
            "name": "NVIDIA H100 80GB HBM3",
            "uuid": "GPU-0",
            "sm": 90,
            "memory_bytes": 85520809984,
            "driver": "580.65.06",
            "note": "",
        }
    ]
    assert told["answered"] is True
    (at_ns,) = told["readings"].pop("at_ns")
    assert at_ns > 0
    assert told["readings"] == {
        "sm_clock_mhz": [1980.0],
        "memory_clock_mhz": [2619.0],
        "temperature_c": [41.0],
        "power_w": [350.5],
        "throttle": [0],
    }
    assert told["processes"] == []


@pytest.mark.parametrize("bits", [0x0, 0x1, 0x4, 0x8, 0x20, 0x40, 0x80, 0x1FF, 0xFFFFFFFF])
def test_throttle_reasons_are_handed_on_bit_by_bit(driver: FakeNvml, bits: int) -> None:
    assert driver.ask(LOOK, f"throttle {bits}")["readings"]["throttle"] == [bits]


def test_an_older_driver_gives_its_throttle_reasons_under_their_older_name(tmp_path: Path) -> None:
    told = FakeNvml(tmp_path, old_driver=True).ask(LOOK, "throttle.old 0x24")
    assert told["readings"]["throttle"] == [0x24]
    assert told["readings"]["sm_clock_mhz"] == [1980.0]


def test_the_processes_on_the_gpu_are_told_by_pid(driver: FakeNvml) -> None:
    """Row 25: somebody else on the GPU is seen."""
    assert driver.ask(LOOK, "processes 3\nprocess.0 17\nprocess.1 4242\nprocess.2 99")["processes"] == [17, 99, 4242]


def test_a_driver_that_does_not_tell_its_processes_is_not_taken_for_an_idle_gpu(driver: FakeNvml) -> None:
    assert driver.ask(LOOK, errors(4, "DeviceGetComputeRunningProcesses"))["processes"] is None
    assert driver.ask(LOOK, errors(3, "DeviceGetComputeRunningProcesses"))["processes"] is None


def test_several_gpus_keep_their_numbers(driver: FakeNvml) -> None:
    told = driver.ask(LOOK, "count 3\nsm 100")
    assert [(device["index"], device["uuid"], device["sm"]) for device in told["devices"]] == [
        (0, "GPU-0", 100),
        (1, "GPU-1", 100),
        (2, "GPU-2", 100),
    ]


def test_a_gpu_that_there_is_not_gives_no_reading(driver: FakeNvml) -> None:
    told = driver.ask(
        "nvml = Nvml()\nreadings = Readings()\n"
        "told['read'] = nvml.read(5, readings)\ntold['n'] = len(readings.at_ns)\ntold['p'] = nvml.processes(5)"
    )
    assert told == {"read": False, "n": 0, "p": None}


def test_a_text_that_is_no_utf_8_is_shown_with_its_bytes(driver: FakeNvml) -> None:
    said = b"name \xf8\x95 RTX\nuuid GPU\xff\ndriver 5\xfe\n".decode("utf-8", "surrogateescape")
    told = driver.ask(LOOK + "told['state'] = nvml.state(0)", said)
    (device,) = told["devices"]
    assert (told["note"], device["name"], device["uuid"]) == ("", "\\xf8\\x95 RTX", "GPU\\xff-0")
    assert device["driver"] == told["state"]["driver"] == "5\\xfe"
    lost = driver.ask(LOOK, "error.Init 77\nwords Fehler: \udcfc\n")
    assert (lost["note"], lost["count"]) == ("NVML 77: Fehler: \\xfc", 0)


# -- row 22: the GPU is lost -------------------------------------------------------------------------------------------


def test_a_lost_gpu_is_a_gap_and_not_zeros(driver: FakeNvml) -> None:
    told = driver.ask(LOOK, errors(15, *EVERY_CALL))
    assert told["answered"] is False
    assert all(values == [] for values in told["readings"].values())


def test_a_gpu_that_falls_off_the_bus_while_it_is_read_leaves_a_gap_and_comes_back(driver: FakeNvml) -> None:
    lost = errors(15, *EVERY_CALL)
    told = driver.ask(
        f"""
nvml, readings, answers = Nvml(), Readings(), []
for text in ("", "", {lost!r}, {lost!r}, ""):
    control(text)
    answers.append(nvml.read(0, readings))
told["answers"], told["clocks"] = answers, readings.sm_clock_mhz
"""
    )
    assert told["answers"] == [True, True, False, False, True]
    assert told["clocks"] == [1980.0] * 3


@pytest.mark.parametrize(
    ("call", "name", "unknown"),
    [
        ("DeviceGetClockInfo.sm", "sm_clock_mhz", "NaN"),
        ("DeviceGetClockInfo.memory", "memory_clock_mhz", "NaN"),
        ("DeviceGetTemperature", "temperature_c", "NaN"),
        ("DeviceGetPowerUsage", "power_w", "NaN"),
    ],
)
@pytest.mark.parametrize("code", [3, 4])
def test_one_thing_that_is_not_told_is_unknown_and_the_rest_is_kept(
    driver: FakeNvml, call: str, name: str, unknown: object, code: int
) -> None:
    """Row 24 among them: what needs a permission that we have not is unknown, and nothing stops for it."""
    told = driver.ask(LOOK, errors(code, call))
    assert told["answered"] is True
    values: dict[str, list[Any]] = told["readings"]
    assert values.pop(name) == [unknown]
    assert all(len(rest) == 1 and rest[0] != "NaN" for rest in values.values())


def test_throttle_reasons_that_are_not_told_are_minus_one(driver: FakeNvml) -> None:
    told = driver.ask(LOOK, errors(3, "DeviceGetCurrentClocksEventReasons", "DeviceGetCurrentClocksThrottleReasons"))
    assert told["readings"]["throttle"] == [-1]


def test_a_gpu_that_is_lost_when_the_engine_starts_is_named_and_the_others_go_on(driver: FakeNvml) -> None:
    told = driver.ask(
        "nvml = Nvml()\nreadings = Readings()\n"
        "told['note'], told['devices'] = nvml.note, devices(nvml)\n"
        "told['read'] = [nvml.read(0, readings), nvml.read(1, readings)]\n"
        "told['processes'] = nvml.processes(0)",
        "count 2\nerror.DeviceGetHandleByIndex.0 15",
    )
    assert told["note"] == ""
    assert [(device["index"], device["uuid"], device["note"]) for device in told["devices"]] == [
        (0, "", "NVML 15: GPU is lost"),
        (1, "GPU-1", ""),
    ]
    assert told["read"] == [False, True]
    assert told["processes"] is None


def test_what_is_not_known_of_a_gpu_is_none(driver: FakeNvml) -> None:
    told = driver.ask(
        LOOK, errors(3, "DeviceGetCudaComputeCapability", "DeviceGetMemoryInfo", "DeviceGetName", "DeviceGetUUID")
    )
    (device,) = told["devices"]
    assert (device["sm"], device["memory_bytes"], device["name"], device["uuid"]) == (None, None, "GPU", "")


# -- row 23: the driver is missing, or another one ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("control", "note"),
    [
        ("error.Init 9", "NVML 9: Driver Not Loaded"),
        ("error.Init 12", "no NVIDIA driver was found here"),
        ("error.Init 18", "NVML 18: RM has detected an NVML/RM version mismatch."),
        ("error.Init 4", "NVML 4: Insufficient Permissions"),
        ("error.SystemGetDriverVersion 15", "NVML 15: GPU is lost"),
        ("error.DeviceGetCount 4", "NVML 4: Insufficient Permissions"),
        ("count 0", "the driver sees no GPU"),
    ],
)
def test_a_driver_that_does_not_work_is_none_and_why_in_its_own_words(
    driver: FakeNvml, control: str, note: str
) -> None:
    told = driver.ask(LOOK, control)
    assert told["note"] == note
    assert (told["count"], told["devices"], told["answered"], told["processes"]) == (0, [], False, None)


def test_no_driver_library_at_all_is_none_and_why(tmp_path: Path) -> None:
    with contextlib.suppress(OSError):
        ctypes.CDLL("libnvidia-ml.so.1")
        pytest.skip("this machine has a driver")
    told = ask(LOOK, {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})
    assert told["note"] == "no NVIDIA driver was found here"
    assert told["count"] == 0


def test_a_file_that_is_no_library_is_none_and_why(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"not a library")
    told = ask(LOOK, {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})
    assert told["note"] == "no NVIDIA driver was found here"


def test_without_the_python_package_there_is_none_and_its_name_is_told(driver: FakeNvml) -> None:
    told = driver.ask("sys.modules['pynvml'] = None\n" + LOOK)
    assert told["note"].startswith("nvidia-ml-py is not installed")
    assert told["devices"] == []


# -- the sampler -------------------------------------------------------------------------------------------------------


def test_the_sampler_reads_twenty_times_a_second_and_each_reading_is_taken_once(driver: FakeNvml) -> None:
    told = driver.ask(
        """
sampler = Sampler(Nvml(), 0)
sampler.start()
sampler.start()
time.sleep(0.6)
first = sampler.take()
time.sleep(0.6)
second = sampler.take()
sampler.stop()
sampler.stop()
last = sampler.take()
time.sleep(0.2)
told["after"] = len(sampler.take().at_ns)
both = Readings()
for part in (first, second, last): both.extend(part)
told["counts"] = [len(part.at_ns) for part in (first, second, last)]
told["all"] = shown(both)
told["threads"] = __import__("threading").active_count()
told["misses"] = sampler.misses
"""
    )
    at_ns = told["all"]["at_ns"]
    assert at_ns == sorted(set(at_ns))
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(at_ns))
    assert gaps[len(gaps) // 2] > 45e6  # a period of 50 ms, more on a busy machine
    assert min(told["counts"][:2]) >= 3
    assert {len(values) for values in told["all"].values()} == {len(at_ns)}
    assert (told["after"], told["threads"], told["misses"]) == (0, 1, 0)


def test_a_gpu_that_does_not_answer_counts_as_missed_and_leaves_no_reading(driver: FakeNvml) -> None:
    told = driver.ask(
        f"""
nvml = Nvml()
control({errors(15, *EVERY_CALL)!r})
sampler = Sampler(nvml, 0)
sampler.start()
while sampler.misses < 3: time.sleep(0.01)
sampler.stop()
told["misses"], told["n"] = sampler.misses, len(sampler.take().at_ns)
"""
    )
    assert told["n"] == 0
    assert told["misses"] >= 3


def test_a_sampler_can_be_started_again(driver: FakeNvml) -> None:
    told = driver.ask(
        """
sampler = Sampler(Nvml(), 0)
told["counts"] = []
for _ in range(3):
    sampler.start()
    count = 0
    while not count:
        time.sleep(0.01)
        count = len(sampler.take().at_ns)
    sampler.stop()
    told["counts"].append(count)
"""
    )
    assert min(told["counts"]) >= 1


def test_without_a_gpu_the_sampler_starts_nothing(driver: FakeNvml) -> None:
    told = driver.ask(
        "sampler = Sampler(Nvml(), 0)\nsampler.start()\n"
        "told['threads'] = __import__('threading').active_count()\nsampler.stop()\n"
        "told['n'] = len(sampler.take().at_ns)",
        "count 0",
    )
    assert told == {"threads": 1, "n": 0}


# -- readings ----------------------------------------------------------------------------------------------------------


def test_readings_become_an_event_of_the_same_lists() -> None:
    readings = Readings([1], [1980.0], [2619.0], [41.0], [350.0], [-1])
    event = readings.event(2)
    assert (event.gpu, event.at_ns, event.sm_clock_mhz, event.throttle) == (2, [1], [1980.0], [-1])
    assert (event.memory_clock_mhz, event.temperature_c, event.power_w) == ([2619.0], [41.0], [350.0])


# -- what it is set to -------------------------------------------------------------------------------------------------

SETTINGS = """
nvml = Nvml()
told["state"], told["none"] = nvml.state(0), nvml.state(3)
users = nvml.users(0)
told["users"] = None if users is None else [[u.pid, u.memory_bytes, u.busy_at_us, u.sm_share_pct] for u in users]
"""


def test_the_settings_and_limits_of_a_gpu_are_told(driver: FakeNvml) -> None:
    told = driver.ask(SETTINGS, "limit 500000\nmost.sm 1755\napplication.sm 1410\ncompute_mode 3\nmig 1")
    state = told["state"]
    assert (state["power_limit_w"], state["default_power_limit_w"]) == (500.0, 700.0)
    assert (state["most_sm_clock_mhz"], state["application_sm_clock_mhz"], state["sm_clock_mhz"]) == (1755, 1410, 1980)
    assert (state["ecc"], state["mig"], state["persistence"]) == (True, True, True)
    assert state["compute_mode"] == "exclusive process"
    assert (state["uuid"], state["driver"], state["index"]) == ("GPU-0", "580.65.06", 0)
    assert (state["temperature_c"], state["throttle"], state["power_w"]) == (41, 0, 350.5)
    assert told["none"] == {}


def test_a_setting_that_is_not_told_is_none_and_not_zero(driver: FakeNvml) -> None:
    names = ("Ecc", "Mig", "Persistence", "Compute")
    calls = [f"DeviceGet{name}Mode" for name in names]
    state = driver.ask(SETTINGS, errors(3, "DeviceGetPowerManagementLimit", "DeviceGetApplicationsClock", *calls))[
        "state"
    ]
    for name in ("power_limit_w", "application_sm_clock_mhz", "ecc", "mig", "persistence", "compute_mode"):
        assert state[name] is None, name
    assert state["energy_j"] is None  # this driver has no such function
    assert state["most_sm_clock_mhz"] == 1980


def test_who_uses_the_gpu_is_told_with_memory_and_last_use(driver: FakeNvml) -> None:
    control = "processes 2\nprocess.0 17\nprocess.1 99\nused 3\n"
    control += (
        "used.0 17\nused.0.at 500\nused.0.sm 40\nused.1 17\nused.1.at 900\nused.1.sm 30\nused.2 99\nused.2.at 800"
    )
    assert driver.ask(SETTINGS, control)["users"] == [[17, 1 << 20, 900, 30], [99, 1 << 20, None, None]]
    assert driver.ask(SETTINGS, "")["users"] == []
    assert driver.ask(SETTINGS, errors(4, "DeviceGetComputeRunningProcesses"))["users"] is None


# -- lost, or short of something ---------------------------------------------------------------------------------------

HEALTH = """
nvml = Nvml()
told["lost"], told["used"] = nvml.lost(0), nvml.used_bytes(0)
told["state"] = {name: nvml.state(0)[name] for name in ("ecc_errors", "remapped_rows")}
told["nowhere"] = [nvml.lost(4), nvml.used_bytes(4)]
"""


@pytest.mark.parametrize(
    ("code", "words"), [(15, "NVML 15: GPU is lost"), (16, "NVML 16: GPU requires restart"), (4, ""), (3, "")]
)
def test_a_gpu_is_lost_where_the_driver_says_so_and_not_where_it_tells_nothing(
    driver: FakeNvml, code: int, words: str
) -> None:
    told = driver.ask(HEALTH, errors(code, "DeviceGetMemoryInfo", "DeviceGetPowerUsage"))
    assert (told["lost"], told["used"]) == (words, None)
    assert driver.ask(HEALTH, errors(code, "DeviceGetPowerUsage"))["lost"] == words


def test_memory_in_use_and_errors_of_the_memory_are_told(driver: FakeNvml) -> None:
    told = driver.ask(HEALTH, "memory.nobodys 5000000\nprocesses 2\necc.errors 3\nrows.corrected 1\nrows.uncorrected 1")
    assert (told["lost"], told["used"]) == ("", 5000000 + (2 << 20))
    assert told["state"] == {"ecc_errors": 3, "remapped_rows": 2}
    assert told["nowhere"] == ["", None]
    told = driver.ask(HEALTH, errors(3, "DeviceGetTotalEccErrors", "DeviceGetRemappedRows"))
    assert told["state"] == {"ecc_errors": None, "remapped_rows": None}


def test_a_sampler_says_that_the_gpu_is_lost(driver: FakeNvml) -> None:
    told = driver.ask(
        f"""
nvml = Nvml()
sampler = Sampler(nvml, 0)
sampler.start()
while not sampler.take().at_ns: time.sleep(0.01)
told["before"] = sampler.lost
control({errors(15, *EVERY_CALL, "DeviceGetMemoryInfo")!r})
while not sampler.lost: time.sleep(0.01)
sampler.stop()
told["after"] = sampler.lost
"""
    )
    assert told == {"before": "", "after": "NVML 15: GPU is lost"}
