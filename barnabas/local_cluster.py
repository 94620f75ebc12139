"""A cluster on one machine: an embedded ZooKeeper (unless one is given) and broker processes, children of this process.

    DATA/barnabas.pid            lock and pid of the process that runs the cluster
    DATA/broker-0.properties     what broker 0 was started with; `brokerd --config` takes it
    DATA/broker-0/               its log directory
    DATA/zookeeper/              the embedded ZooKeeper's data
    DATA/logs/                   what each of them says: broker-0.log, zookeeper.log

Brokers start when ZooKeeper serves and stop before it does. A broker that dies is reported, not started again.
"""

import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import attrs

from barnabas.embedded_zookeeper import EmbeddedZooKeeper, ZooKeeperUnavailable, free_port
from barnabas.errors import UserError, WrongCall
from barnabas.pid_file import InUse, PidFile
from barnabas.processes import LoggedProcess, how_it_ended, last_alarm, last_words, port_is_taken

HOST = "127.0.0.1"
METRICS_PORT = 9464
#: Settings that `up` decides: they differ from broker to broker, or other parts of the cluster depend on them.
OWN_SETTINGS = {
    "broker.id": "brokers are numbered from 0",
    "listeners": "--port chooses it",
    "log.dirs": "--data chooses it",
    "log.dir": "--data chooses it",
    "zookeeper.connect": "--zookeeper chooses it",
}
_STOP_SECONDS = 20.0
_PROBE_SECONDS = 0.05
_PROBE_TIMEOUT = 2.0

Report = Callable[[str], None]


@attrs.frozen(kw_only=True)
class Plan:
    """What was asked for. A port of 0 means any that is free; `zookeeper` None means an embedded one."""

    data: Path
    brokers: int = 1
    port: int = 9092
    zookeeper: str | None = None
    zookeeper_port: int = 2181
    metrics_port: int | None = None
    overrides: Mapping[str, str] = attrs.field(factory=dict)
    ready_seconds: float = 60.0

    def with_ports(self, free: Callable[[], int] = free_port) -> "Plan":
        """The same with real ports in place of zeros."""
        return attrs.evolve(
            self,
            port=self.port or _free_run(self.brokers, free),
            zookeeper_port=self.zookeeper_port or free(),
        )

    @property
    def ports(self) -> list[int]:
        """The brokers' ports, by broker id."""
        return [self.port + broker for broker in range(self.brokers)]

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to."""
        return ",".join(f"{HOST}:{port}" for port in self.ports)

    @property
    def zookeeper_connect(self) -> str:
        """The ZooKeeper that brokers connect to."""
        return self.zookeeper or f"{HOST}:{self.zookeeper_port}"

    def settings(self, broker: int) -> dict[str, str]:
        """The settings of one broker: ours, the user's over them, and those that are `up`'s alone."""
        return {
            # Short, so that a broker that was killed can come back soon: its old registration must expire first.
            "zookeeper.session.timeout.ms": "6000",
            "http.listener": "off" if self.metrics_port is None else f"{HOST}:{self.metrics_port + broker}",
            **self.overrides,
            "broker.id": str(broker),
            "listeners": f"PLAINTEXT://{HOST}:{self.ports[broker]}",
            "log.dirs": str(self.data / f"broker-{broker}"),
            "zookeeper.connect": self.zookeeper_connect,
        }


def checked(plan: Plan) -> Plan:
    """The plan, or a UserError for what can be known to fail before anything is started."""
    from brokerd import config

    for name, reason in OWN_SETTINGS.items():
        if name in plan.overrides:
            raise WrongCall(f"--override {name}: `barnabas up` sets it itself; {reason}")
    if plan.ports[-1] > 65535:
        raise WrongCall(f"broker {plan.brokers - 1} would need port {plan.ports[-1]}; choose a lower --port")
    try:
        for broker in range(plan.brokers):
            config.load(plan.settings(broker))
    except config.ConfigError as error:
        raise WrongCall(f"--override {error}") from None
    for port in plan.ports:
        if port_is_taken(HOST, port):
            raise UserError(f"port {port} is taken: something listens on {HOST}:{port}; choose another with --port")
    if plan.zookeeper is None and port_is_taken(HOST, plan.zookeeper_port):
        raise UserError(
            f"port {plan.zookeeper_port} is taken: name the ZooKeeper that listens there with "
            f"--zookeeper {HOST}:{plan.zookeeper_port}, or choose another port with --zookeeper-port"
        )
    if plan.zookeeper is not None:
        _check_reachable(plan.zookeeper)
    return plan


class LocalCluster:
    """The running thing: `start`, look at `dead` now and then, `stop`; or use it as a context manager."""

    def __init__(self, plan: Plan, report: Report = lambda _: None) -> None:
        self.plan = attrs.evolve(plan.with_ports(), data=plan.data.absolute())
        self.zookeeper: EmbeddedZooKeeper | None = None
        self.brokers: dict[int, LoggedProcess] = {}
        self._report = report
        self._pid_file = PidFile(self.plan.data)
        self._reported_dead: set[str] = set()

    def start(self) -> None:
        """Returns when clients can connect: every broker answers, and knows all others and a controller.

        Raises UserError if that does not come true; what was started is then still to be stopped.
        """
        self._take_directory()
        checked(self.plan)
        self._start_zookeeper()
        for broker in range(self.plan.brokers):
            self._start_broker(broker)
        self._wait_ready()

    def dead(self) -> list[str]:
        """What died since the last call, in words for the user."""
        lines = []
        for broker, process in self.brokers.items():
            code = process.exit_code
            if code is not None and process.name not in self._reported_dead:
                self._reported_dead.add(process.name)
                alarm = last_alarm(process.said())
                lines.append(
                    f"broker {broker} is gone ({how_it_ended(code)}){f': {alarm}' if alarm else ''}; "
                    f"start it again with: brokerd --config {self._properties(broker)}"
                )
        if self.zookeeper is not None and not self.zookeeper.running() and "zookeeper" not in self._reported_dead:
            self._reported_dead.add("zookeeper")
            lines.append(f"ZooKeeper is gone; its log: {self._log('zookeeper')}")
        return lines

    def stop(self) -> None:
        """Brokers first, all at once, then ZooKeeper. What does not end in time is killed, and reported."""
        for process in self.brokers.values():
            process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for process in self.brokers.values():
            if not process.ended_by(deadline):
                self._report(f"{process.name} did not stop within {_STOP_SECONDS:g} s: killed")
                process.kill()
                process.ended_by(time.monotonic() + _STOP_SECONDS)
        if self.zookeeper is not None:
            self.zookeeper.stop()
        self._pid_file.release()

    def kill(self) -> None:
        """Ends all at once, for the impatient: the next start has to recover."""
        for process in self.brokers.values():
            process.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _take_directory(self) -> None:
        data = self.plan.data
        try:
            (data / "logs").mkdir(parents=True, exist_ok=True)
            self._pid_file.acquire()
        except InUse as error:
            raise directory_in_use(data, error.pid) from None
        except OSError as error:
            raise UserError(f"the data directory {data} cannot be used: {error.strerror}") from None

    def _start_zookeeper(self) -> None:
        if self.plan.zookeeper is not None:
            return
        self._report(f"starting ZooKeeper on {self.plan.zookeeper_connect}")
        self.zookeeper = EmbeddedZooKeeper(
            self.plan.data / "zookeeper", self.plan.zookeeper_port, host=HOST, log=self._log("zookeeper")
        )
        try:
            self.zookeeper.start()
            self.zookeeper.wait_ready()
        except ZooKeeperUnavailable as error:
            raise UserError(str(error)) from None

    def _start_broker(self, broker: int) -> None:
        self._report(f"starting broker {broker} on {HOST}:{self.plan.ports[broker]}")
        properties = self._properties(broker)
        properties.write_text(_properties_text(self.plan.settings(broker)))
        command = [sys.executable, "-m", "brokerd.main", "--config", str(properties)]
        self.brokers[broker] = LoggedProcess(f"broker {broker}", command, self._log(f"broker-{broker}"))

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + self.plan.ready_seconds
        waiting = dict(self.brokers)
        while waiting:
            for broker, process in self.brokers.items():
                code = process.exit_code
                if code is not None:
                    raise UserError(
                        f"broker {broker} ended at its start ({how_it_ended(code)}): {last_words(process.said())} "
                        f"(its log: {process.log})"
                    )
                if broker in waiting and self._serves(broker):
                    del waiting[broker]
            if waiting and time.monotonic() > deadline:
                broker, process = next(iter(waiting.items()))
                raise UserError(
                    f"broker {broker} was not ready within {self.plan.ready_seconds:g} s: {last_words(process.said())} "
                    f"(its log: {process.log})"
                )
            if waiting:
                time.sleep(_PROBE_SECONDS)

    def _serves(self, broker: int) -> bool:
        """Whether a real client could work with it: it answers, and names all our brokers and a controller."""
        from kafka_wire.blocking import BlockingCluster
        from kafka_wire.errors import KafkaError

        address = f"{HOST}:{self.plan.ports[broker]}"
        try:
            with BlockingCluster(address, timeout=_PROBE_TIMEOUT) as cluster:
                view = cluster.metadata((), refresh=True)
        except KafkaError:
            return False
        return view.controller_id >= 0 and set(self.brokers) <= set(view.brokers)

    def _properties(self, broker: int) -> Path:
        return self.plan.data / f"broker-{broker}.properties"

    def _log(self, name: str) -> Path:
        return self.plan.data / "logs" / f"{name}.log"


def directory_in_use(data: Path, pid: int | None) -> UserError:
    """The error for a second cluster in one directory."""
    return UserError(
        f"a cluster runs in {data} already (process {pid}); "
        "stop it with `barnabas down`, or choose another directory with --data"
    )


def _properties_text(settings: Mapping[str, str]) -> str:
    import javaproperties

    text: str = javaproperties.dumps(dict(settings), timestamp=False)
    return f"# Written by `barnabas up` at every start.\n{text}"


def _free_run(length: int, free: Callable[[], int]) -> int:
    """The first of so many free ports in a row."""
    for _ in range(100):
        first = free()
        if first + length <= 65536 and not any(port_is_taken(HOST, first + index) for index in range(1, length)):
            return first
    raise UserError(f"no {length} free ports in a row were found; choose them with --port")


def _check_reachable(zookeeper: str) -> None:
    """A TCP connection to one of the servers; whether it is a healthy ZooKeeper the brokers find out."""
    problems = []
    for address in zookeeper.partition("/")[0].split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdecimal():
            raise WrongCall(f"--zookeeper wants HOST:PORT,..., not {address!r}")
        try:
            socket.create_connection((host.strip("[]"), int(port)), 3.0).close()
        except OSError as error:
            problems.append(f"{address}: {error.strerror or error}")
        else:
            return
    raise UserError(f"ZooKeeper cannot be reached: {'; '.join(problems)}")
