"""The command line as users run it: real processes, a real ZooKeeper, real exit codes."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from barnabas.embedded_zookeeper import EmbeddedZooKeeper, free_port

BARNABAS = str(Path(sys.executable).with_name("barnabas"))
READY_SECONDS = 60.0
STOP_SECONDS = 40.0
FREE_PORTS = ("--port", "0", "--zookeeper-port", "0", "--metrics-port", "0")


def barnabas(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """One call, to its end."""
    return subprocess.run(
        [BARNABAS, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, **environment},
    )


class Up:
    """`barnabas up` in the foreground, ready."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [BARNABAS, "up", *FREE_PORTS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], READY_SECONDS)
        self.ready_line = self.process.stdout.readline() if readable else ""
        found = re.match(r"ready: brokers (\S+), ZooKeeper (\S+), data (\S+)\n", self.ready_line)
        if found is None:
            self.process.kill()
            pytest.fail(f"up was not ready: {self.ready_line!r} {self.process.communicate()[1]}")
        self.brokers, self.zookeeper, self.data = found[1], found[2], Path(found[3])

    @property
    def environment(self) -> dict[str, str]:
        """What tells other calls where this cluster is."""
        return {"BARNABAS_BOOTSTRAP_SERVER": self.brokers, "BARNABAS_ZOOKEEPER": self.zookeeper}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A call against this cluster."""
        return barnabas(*arguments, **self.environment)

    def json(self, *arguments: str) -> Any:
        """What a call against this cluster prints with --json."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def children(self) -> list[psutil.Process]:
        """ZooKeeper and the brokers."""
        return list(psutil.Process(self.process.pid).children(recursive=True))

    def broker(self, number: int) -> psutil.Process:
        """The process of one broker."""
        name = f"broker-{number}.properties"
        return next(each for each in self.children() if any(part.endswith(name) for part in each.cmdline()))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """(exit code, stderr)."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=STOP_SECONDS)
        return self.process.returncode, said


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    """Starts clusters in `tmp_path`/data and stops them at the end."""
    started: list[Up] = []

    def up(*arguments: str) -> Up:
        started.append(Up("--data", str(tmp_path / "data"), *arguments))
        return started[-1]

    yield up
    for each in started:
        if each.process.poll() is None:
            each.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One cluster for the tests that leave it as it was."""
    up = Up("--data", str(tmp_path_factory.mktemp("cluster") / "data"))
    yield up
    code, said = up.stop()
    assert code == 0, said


def wait_until(condition: Callable[[], bool], seconds: float = STOP_SECONDS) -> None:
    """Polls; fails when time is up."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def test_help_is_there_within_300_ms() -> None:
    """The best of five: other processes may be busy."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        assert barnabas("--help").returncode == 0
        times.append(time.perf_counter() - began)
    assert min(times) < 0.3


def test_shell_completes_verbs_options_and_topics(cluster: Up) -> None:
    """With the words as bash gives them."""

    def completed(*words: str) -> list[str]:
        line = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_BARNABAS_COMPLETE": "bash_complete"}
        return [each.partition(",")[2] for each in barnabas(**cluster.environment, **line).stdout.splitlines()]

    cluster.run("topics", "create", "completed-topic")
    assert completed("barnabas", "stat") == ["status"]
    assert completed("barnabas", "topics", "add") == ["add-partitions"]
    assert "--replication-factor" in completed("barnabas", "topics", "create", "--rep")
    assert completed("barnabas", "topics", "describe", "completed-") == ["completed-topic"]
    cluster.run("topics", "delete", "completed-topic")


def test_topic_lives_from_create_to_delete(cluster: Up) -> None:
    """Every verb of `topics`, in the order of a topic's life."""
    created = cluster.run("topics", "create", "life", "--partitions", "2", "--config", "retention.ms=86400000")
    assert (created.returncode, created.stdout) == (0, ""), created.stderr
    assert cluster.run("topics", "list").stdout == "life\n"
    [listed] = cluster.json("topics", "list")
    assert (listed["name"], listed["partitions"], listed["replication_factor"]) == ("life", 2, 1)

    lines = cluster.run("topics", "describe", "life").stdout.splitlines()
    assert re.fullmatch(
        r"Topic: life\tTopicId: [\w-]{22}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: retention.ms=86400000",
        lines[0],
    )
    assert lines[1:] == [f"\tTopic: life\tPartition: {n}\tLeader: 0\tReplicas: 0\tIsr: 0" for n in (0, 1)]

    altered = cluster.run(
        "topics", "alter", "life", "--config", "segment.bytes=1048576", "--delete-config", "retention.ms"
    )
    assert altered.returncode == 0, altered.stderr
    assert cluster.run("topics", "add-partitions", "life", "--add", "2").returncode == 0
    wait_until(lambda: len(cluster.json("topics", "describe", "life")[0]["partitions"]) == 4)
    assert cluster.json("topics", "describe", "life")[0]["configs"] == {"segment.bytes": "1048576"}

    assert cluster.run("topics", "delete", "life").returncode == 0
    wait_until(lambda: cluster.run("topics", "list").stdout == "")


def test_settings_are_shown_and_changed(cluster: Up) -> None:
    """`configs`, for a topic and a broker."""
    cluster.run("topics", "create", "settings")

    def of_topic(*arguments: str) -> dict[str, str]:
        found = cluster.json("configs", "describe", "--topic", "settings", *arguments)
        return {each["name"]: each["value"] for each in found}

    before = of_topic("--all")
    assert "retention.ms" in before
    changed = cluster.run("configs", "alter", "--topic", "settings", "--set", "retention.ms=5000")
    assert changed.returncode == 0, changed.stderr
    wait_until(lambda: of_topic("retention.ms") == {"retention.ms": "5000"})
    assert cluster.run("configs", "alter", "--topic", "settings", "--delete", "retention.ms").returncode == 0
    wait_until(lambda: of_topic("--all") == before)

    [log_dirs] = cluster.json("configs", "describe", "--broker", "0", "log.dirs")
    assert log_dirs["value"] == str(cluster.data / "broker-0")
    cluster.run("topics", "delete", "settings")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "line"),
    [
        (("topics", "describe", "nothing"), 1, "barnabas: there is no topic nothing"),
        (("topics", "delete", "nothing"), 1, "barnabas: there is no topic nothing"),
        (("topics", "delete", "nothing", "--if-exists"), 0, "there is no topic nothing"),
        (("topics", "create", "a b"), 1, None),
        (("topics", "create", "far", "--replication-factor", "7"), 1, None),
        (("topics", "create", "odd", "--config", "retenton.ms=1"), 1, None),
        (("topics", "alter", "nothing", "--config", "retention.ms=1"), 1, None),
        (("configs", "describe", "--broker", "77"), 1, None),
        (("topics", "create"), 2, None),
        (("topics", "alter", "nothing"), 2, None),
        (("configs", "describe"), 2, None),
        (("topics", "list", "--bootstrap-server", "host:port"), 2, None),
        (("topics", "list", "--bootstrap-server", "127.0.0.1:1"), 1, None),
    ],
)
def test_mistake_is_told_in_words(cluster: Up, arguments: tuple[str, ...], exit_code: int, line: str | None) -> None:
    """One line for what failed; the usage before it for a wrong call; never a traceback."""
    done = cluster.run(*arguments)
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert "Traceback" not in done.stderr
    if exit_code == 1:
        assert done.stderr.startswith("barnabas: ")
        assert done.stderr.count("\n") == 1
    if line is not None:
        assert done.stderr == f"{line}\n"


def test_status_shows_brokers_and_zookeeper(cluster: Up) -> None:
    """As JSON and as text."""
    found = cluster.json("status")
    [broker] = found["brokers"]
    assert (broker["id"], broker["answers"], broker["problem"]) == (0, True, None)
    assert (found["controller"], found["under_replicated"], found["offline"]) == (0, [], [])
    assert found["zookeeper"][0]["mode"] == "standalone"
    text = cluster.run("status").stdout
    assert text.startswith(f"cluster {found['cluster_id']}: 1 broker, controller broker 0, ")


def test_second_cluster_in_the_directory_is_refused(cluster: Up) -> None:
    """Whether detached or not, and without harm to the first."""
    for detach in ((), ("--detach",)):
        done = barnabas("up", "--data", str(cluster.data), *FREE_PORTS, *detach)
        assert done.returncode == 1
        assert f"a cluster runs in {cluster.data} already (process {cluster.process.pid})" in done.stderr
    assert cluster.run("status").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_everything_and_data_are_kept(start: Callable[..., Up], number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM; the next start finds the topic again."""
    first = start()
    assert first.run("topics", "create", "kept", "--partitions", "3").returncode == 0
    children = first.children()
    assert len(children) >= 2

    code, said = first.stop(number)

    assert code == 0, said
    assert not any(_lives(each) for each in children)
    second = start()
    [topic] = second.json("topics", "describe", "kept")
    assert [each["leader"] for each in topic["partitions"]] == [0, 0, 0]


def test_detached_cluster_is_stopped_by_down(tmp_path: Path) -> None:
    """`up --detach` returns when ready, `down` when all has ended; a second `down` has nothing to do."""
    data = tmp_path / "data"
    up = barnabas("up", "--detach", "--data", str(data), *FREE_PORTS)
    try:
        assert up.returncode == 0, up.stderr
        assert up.stdout.startswith("ready: brokers ")
        runner = psutil.Process(int((data / "barnabas.pid").read_text()))
        everything = [runner, *runner.children(recursive=True)]
        brokers = up.stdout.split()[2].rstrip(",")
        assert barnabas("topics", "create", "t", "--bootstrap-server", brokers).returncode == 0
    finally:
        down = barnabas("down", "--data", str(data))
    assert down.returncode == 0, down.stderr
    assert not any(_lives(each) for each in everything)
    again = barnabas("down", "--data", str(data))
    assert (again.returncode, again.stderr) == (0, f"no cluster runs in {data}\n")


def test_taken_port_is_named(tmp_path: Path) -> None:
    """Before anything is started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = barnabas("up", "--data", str(tmp_path), "--zookeeper-port", "0", "--port", str(port))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"barnabas: port {port} is taken: something listens on 127.0.0.1:{port}; choose another with --port"
    )


def test_missing_java_is_told(tmp_path: Path) -> None:
    """And what would help."""
    done = barnabas("up", "--data", str(tmp_path), *FREE_PORTS, JAVA_HOME="", PATH=str(tmp_path))
    assert done.returncode == 1
    assert "the embedded ZooKeeper needs Java" in done.stderr.splitlines()[-1]


def test_broker_that_cannot_start_is_quoted(tmp_path: Path) -> None:
    """The end of its log says why; nothing is left running."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "broker-0").write_text("a file where the log directory should be")
    done = barnabas("up", "--data", str(data), *FREE_PORTS)
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert line.startswith("barnabas: broker 0 ended at its start (exit code ")
    assert str(data / "logs" / "broker-0.log") in line
    assert "Traceback" not in done.stderr
    assert not [each for each in psutil.process_iter() if str(data) in " ".join(_command_line(each))]


def test_broker_that_dies_is_reported_and_not_started_again(start: Callable[..., Up]) -> None:
    """The cluster goes on; the user is told how to start the broker again, and that works."""
    up = start()
    broker = up.broker(0)
    os.kill(broker.pid, signal.SIGKILL)
    assert up.process.stderr is not None
    said = ""
    while "is gone" not in said:
        assert select.select([up.process.stderr], [], [], STOP_SECONDS)[0]
        said = up.process.stderr.readline()
    assert said.startswith("broker 0 is gone (killed by SIGKILL)")
    command = said.rpartition("start it again with: ")[2].split()
    assert command[0] == "brokerd"

    again = subprocess.Popen([str(Path(sys.executable).with_name("brokerd")), *command[1:]], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: up.run("topics", "list").returncode == 0)
    finally:
        again.terminate()
        assert again.wait(STOP_SECONDS) == 0
    assert up.stop()[0] == 0


def test_killed_up_leaves_no_orphans(start: Callable[..., Up]) -> None:
    """After kill -9 the ports and the directory are free again."""
    up = start()
    children = up.children()
    up.process.kill()
    up.process.communicate()
    wait_until(lambda: not any(_lives(each) for each in children))
    start()


def test_given_zookeeper_is_used_with_its_chroot(tmp_path: Path, start: Callable[..., Up]) -> None:
    """And left running."""
    with EmbeddedZooKeeper(tmp_path / "zk", free_port()) as zookeeper:
        up = start("--zookeeper", f"{zookeeper.connect}/somewhere")
        assert up.zookeeper == f"{zookeeper.connect}/somewhere"
        assert up.run("topics", "create", "t").returncode == 0
        assert not (up.data / "zookeeper").exists()
        assert up.stop()[0] == 0
        assert zookeeper.running()


def test_override_reaches_the_broker(start: Callable[..., Up]) -> None:
    """As in a properties file."""
    up = start("--override", "num.partitions=5")
    assert up.run("topics", "create", "t").returncode == 0
    assert up.json("topics", "list")[0]["partitions"] == 5


def test_table_is_drawn_on_a_terminal(cluster: Up) -> None:
    """Elsewhere the same call prints plain names."""
    cluster.run("topics", "create", "shown")
    code, said = _on_terminal(cluster, "topics", "list")
    assert code == 0
    assert "Partitions" in said
    assert "\x1b[1;36m" in said
    cluster.run("topics", "delete", "shown")


@pytest.mark.parametrize(("answer", "exit_code", "left"), [("n", 1, "doubtful\n"), ("y", 0, "")])
def test_deletion_on_a_terminal_is_asked_for(cluster: Up, answer: str, exit_code: int, left: str) -> None:
    """A script is not asked; --yes answers beforehand."""
    cluster.run("topics", "create", "doubtful", "--if-not-exists")
    code, said = _on_terminal(cluster, "topics", "delete", "doubtful", answer=answer)
    assert "Delete doubtful with all messages? [y/N]" in said
    assert code == exit_code
    wait_until(lambda: cluster.run("topics", "list").stdout == left)


def test_demo_runs_through() -> None:
    """The first command of the README."""
    demo = Path(__file__).parents[1] / "scripts" / "demo.py"
    done = subprocess.run([sys.executable, str(demo)], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    assert "confluent-kafka read all 2000 messages" in done.stdout


def _on_terminal(cluster: Up, *arguments: str, answer: str = "") -> tuple[int, str]:
    """(exit code, all it said) of a call with a terminal for input and output."""
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {**os.environ, **cluster.environment, "TERM": "xterm", "COLUMNS": "100"}
        os.execve(BARNABAS, [BARNABAS, *arguments], environment)
    if answer:
        os.write(terminal, f"{answer}\n".encode())
    said = b""
    with contextlib.suppress(OSError):  # that is how the end of a terminal is told
        while part := os.read(terminal, 65536):
            said += part
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.decode("utf-8", "replace")


def _command_line(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return list(process.cmdline())
    return []


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False
