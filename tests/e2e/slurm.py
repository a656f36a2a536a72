"""A Slurm cluster of several nodes on this machine, for tests: munged, slurmctld and one slurmd per node, on
loopback, with all files in one private folder."""
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo", "squeue")
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def missing():
    """What Slurm needs and this machine lacks, or None."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
    if absent:
        return f"{', '.join(absent)} (Debian package slurm-wlm)"
    if os.geteuid() != 0:
        return "root: slurmd starts jobs for users"
    return None


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Slurm:
    """A context manager. `environment` is the environment for srun and other Slurm commands."""

    def __init__(self, nodes):
        self.nodes = [f"n{i + 1}" for i in range(nodes)]
        self.processes = []

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cupel-slurm-"))
        # munge requires that no other user can write to the folders above its socket.
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def environment(self):
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": PATH}

    def start(self):
        (self.folder / "munge").mkdir(mode=0o755)
        self.folder.chmod(0o755)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        munge = self.folder / "munge"
        self.spawn("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={munge}/socket",
                   f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed",
                   "--num-threads=1")
        self.wait_for("munged", (munge / "socket").exists)
        controller, *ports = free_ports(1 + len(self.nodes))
        self.write_configuration(controller, ports)
        self.spawn("slurmctld", "-D", "-f", self.folder / "slurm.conf")
        for node in self.nodes:
            self.spawn("slurmd", "-D", "-N", node, "-f", self.folder / "slurm.conf")
        self.wait_for("the nodes", self.are_idle)

    def write_configuration(self, controller, ports):
        host = socket.gethostname()
        for name in ("state", *(f"spool-{node}" for node in self.nodes)):
            (self.folder / name).mkdir()
        lines = [
            "ClusterName=cupel", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={controller}",
            "SlurmUser=root", "SlurmdUser=root", "AuthType=auth/munge",
            f"AuthInfo=socket={self.folder}/munge/socket", "CredType=cred/munge",
            # No cgroups, since containers do not provide them.
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/none",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "SwitchType=switch/none",
            "MpiDefault=none", "ReturnToService=2", "SlurmctldTimeout=60", "SlurmdTimeout=60", "KillWait=2",
            "InactiveLimit=0", "SchedulerType=sched/builtin", "SlurmdParameters=config_overrides",
            f"StateSaveLocation={self.folder}/state", f"SlurmdSpoolDir={self.folder}/spool-%n",
            f"SlurmctldPidFile={self.folder}/slurmctld.pid", f"SlurmdPidFile={self.folder}/slurmd-%n.pid",
            f"SlurmctldLogFile={self.folder}/slurmctld.log", f"SlurmdLogFile={self.folder}/slurmd-%n.log",
        ]
        for node, port in zip(self.nodes, ports):
            lines.append(f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2")
        lines.append(f"PartitionName=all Nodes={','.join(self.nodes)} Default=YES MaxTime=INFINITE State=UP")
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n")

    def spawn(self, name, *args):
        log = open(self.folder / f"{name}-{len(self.processes)}.out", "wb")
        process = subprocess.Popen([shutil.which(name, path=PATH), *map(str, args)], stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=subprocess.STDOUT,
                                   env={**os.environ, **self.environment}, start_new_session=True)
        log.close()
        self.processes.append(process)

    def query(self, *argv):
        done = subprocess.run([shutil.which(argv[0], path=PATH), *argv[1:]], capture_output=True, text=True,
                              timeout=60, env={**os.environ, **self.environment})
        return done.stdout if done.returncode == 0 else ""

    def are_idle(self):
        states = self.query("sinfo", "-h", "-N", "-o", "%T").split()
        return len(states) == len(self.nodes) and set(states) == {"idle"}

    def jobs(self):
        return self.query("squeue", "-h", "-o", "%i").split()

    def wait_for(self, what, ready, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if dead := [p for p in self.processes if p.poll() is not None]:
                raise RuntimeError(f"{dead[0].args[0]} ended with status {dead[0].returncode}:\n{self.logs()}")
            if ready():
                return
            time.sleep(0.2)
        raise RuntimeError(f"{what} did not start in {seconds} s:\n{self.logs()}")

    def logs(self):
        texts = []
        for path in sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out"), *self.folder.glob("munge/log")]):
            texts.append(f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-15:]))
        return "\n".join(texts)
