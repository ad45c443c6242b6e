"""The faults of a soak. Each strikes, and mends what does not mend by itself; its docstring is what is shown."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

from heliograph.lab.broker import Broker
from tests.soak.scene import SoakScene

FREEZE_S = (3.0, 20.0)
DOWN_S = (2.0, 15.0)

Fault = Callable[[SoakScene, random.Random], None]


def kill_a_lane(scene: SoakScene, dice: random.Random) -> None:
    """kill -9 of a lane"""
    pid = _lane(scene, dice)
    if pid is not None:
        _send(pid, signal.SIGKILL)


def freeze_a_lane(scene: SoakScene, dice: random.Random) -> None:
    """SIGSTOP of a lane, SIGCONT later"""
    pid = _lane(scene, dice)
    if pid is not None:
        _freeze(pid, dice)


def kill_a_driver(scene: SoakScene, dice: random.Random) -> None:
    """kill -9 of a driver, which is started again"""
    number = dice.randrange(2)
    _send(scene.drivers[number].pid, signal.SIGKILL)
    scene.rest(dice.uniform(*DOWN_S))
    scene.restart(number)


def freeze_a_driver(scene: SoakScene, dice: random.Random) -> None:
    """SIGSTOP of a driver, SIGCONT later"""
    _freeze(dice.choice(scene.drivers).pid, dice)


def kill_a_jvm(scene: SoakScene, dice: random.Random) -> None:
    """kill -9 of a driver's Spark JVM; the driver is started again"""
    number = dice.randrange(2)
    for process in scene.drivers[number].family():
        if process.name() == "java":
            _send(process.pid, signal.SIGKILL)
    scene.rest(dice.uniform(*DOWN_S))
    scene.restart(number)


def kill_a_target_broker(scene: SoakScene, dice: random.Random) -> None:
    """kill -9 of a target broker, started again later"""
    _bounce(dice.choice(scene.target.brokers), dice)


def kill_the_source(scene: SoakScene, dice: random.Random) -> None:
    """kill -9 of the source's broker, started again later"""
    _bounce(scene.source.brokers[0], dice)


def restart_a_target_broker(scene: SoakScene, dice: random.Random) -> None:
    """orderly restart of a target broker"""
    broker = dice.choice(scene.target.brokers)
    broker.stop()
    broker.start()


def freeze_a_target_broker(scene: SoakScene, dice: random.Random) -> None:
    """SIGSTOP of a target broker, SIGCONT later"""
    broker = dice.choice(scene.target.brokers)
    broker.freeze()
    scene.rest(dice.uniform(*FREEZE_S))
    broker.thaw()


def freeze_the_source(scene: SoakScene, dice: random.Random) -> None:
    """SIGSTOP of the source's broker, SIGCONT later"""
    (broker,) = scene.source.brokers
    broker.freeze()
    scene.rest(dice.uniform(*FREEZE_S))
    broker.thaw()


def move_the_leaders(scene: SoakScene, dice: random.Random) -> None:
    """new leaders of a target topic, with nobody down"""
    order = [broker.node_id for broker in scene.target.brokers]
    dice.shuffle(order)
    scene.move_leaders(order)


FAULTS: tuple[Fault, ...] = (
    kill_a_lane,
    kill_a_lane,
    freeze_a_lane,
    kill_a_driver,
    freeze_a_driver,
    kill_a_jvm,
    kill_a_target_broker,
    kill_the_source,
    restart_a_target_broker,
    freeze_a_target_broker,
    freeze_the_source,
    move_the_leaders,
)


def _lane(scene: SoakScene, dice: random.Random) -> int | None:
    pids = [pid for driver in scene.drivers if driver.running for pid in driver.lane_pids()]
    return dice.choice(pids) if pids else None


def _bounce(broker: Broker, dice: random.Random) -> None:
    broker.kill()
    time.sleep(dice.uniform(*DOWN_S))
    broker.start()


def _freeze(pid: int, dice: random.Random) -> None:
    _send(pid, signal.SIGSTOP)
    time.sleep(dice.uniform(*FREEZE_S))
    _send(pid, signal.SIGCONT)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has ended meanwhile, by another fault's doing
