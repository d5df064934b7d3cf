"""The rendezvous services of a storm: mtrdzv on the hub, or the mtruns of the first nodes."""
import os

import cluster

PORT = 29400
# name -> number of nodes whose mtrun hosts a service; 0: mtrdzv on the hub
SETTINGS = {"one": 0, "list": 3, "hosted": 1}


class Services:
    def __init__(self, machines, setting, programs, folder, environment):
        self.cluster, self.setting, self.programs = machines, setting, programs
        self.folder, self.environment = folder, environment
        self.hosts = list(range(SETTINGS[setting]))
        self.process = None  # the process of mtrdzv

    def endpoints(self):
        return ",".join(f"{self.cluster.address(host)}:{PORT}" for host in self.hosts or [cluster.HUB])

    def start(self):
        if self.hosts:
            return
        argv = [os.path.join(self.programs, "mtrdzv"), "--host", self.cluster.address(cluster.HUB), "--port", str(PORT)]
        self.process = self.cluster.start(cluster.HUB, argv, os.path.join(self.folder, "service.log"), self.environment)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.process = None
