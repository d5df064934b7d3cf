"""Simulates controllers that start pods: that of an elastic Indexed Job, and Kubeflow's operator. They treat the pods
on this machine as on a cluster, by the manifest."""
import os

import manifests
from pod import Pod

NAMESPACE = "default"


class World:
    """Machines, storage claims and secrets; `image` is a folder that contains opt/mtrun and work."""

    def __init__(self, machines, folder, image, secrets):
        self.machines, self.folder, self.image, self.secrets = machines, folder, image, secrets
        self.used = 0
        self.processes = []  # of all pods so far

    def machine(self):
        """Returns an unused machine, because each pod has its own address."""
        self.used += 1
        return self.used - 1

    def claim(self, name):
        folder = os.path.join(self.folder, "claim-" + name)
        os.makedirs(folder, exist_ok=True)
        return folder


class IndexedJob:
    """Pods with indexes below `completions`, each under its name in the headless service."""

    def __init__(self, world, job, service):
        self.world, self.job, self.spec = world, job, job["spec"]
        self.name, self.service = job["metadata"]["name"], service["metadata"]["name"]
        self.pods = {}

    def start(self, index):
        name = f"{self.name}-{index}"
        pod = self.pods[index] = Pod(self.world, self.world.machine(), name, self.spec["template"], {"JOB_COMPLETION_INDEX": str(index)})
        self.publish()
        pod.start()
        return pod

    def stop(self, index):
        """Deletes a pod, as for a smaller Job or a node drain; returns the container's status."""
        pod = self.pods.pop(index)
        status = pod.terminate()
        self.publish()
        return status

    def publish(self):
        """Publishes addresses as soon as pods have one (publishNotReadyAddresses)."""
        hosts = "".join(f"{pod.address} {pod.name}.{self.service}.{NAMESPACE}.svc.cluster.local {pod.name}.{self.service}\n"
                        for pod in self.pods.values())
        for pod in self.pods.values():
            pod.learn(hosts)

    def verdict(self, status, disrupted=False):
        """Returns the Job's reaction to a container's status: "Succeeded", "Ignore", "FailJob" or "Count"."""
        if status == 0:
            return "Succeeded"
        for rule in self.spec["podFailurePolicy"]["rules"]:
            if "onPodConditions" in rule and disrupted:
                return rule["action"]
            if "onExitCodes" in rule and status in rule["onExitCodes"]["values"]:
                return rule["action"]
        return "Count"


class PyTorchJob:
    """One pod per replica, with torchrun's settings in the environment, as written by the operator since 1.7."""

    PORT = "23456"

    def __init__(self, world, job):
        self.world, self.job = world, job
        self.pods = []

    def start(self):
        spec, name = self.job["spec"], self.job["metadata"]["name"]
        replicas = [(kind, number) for kind in manifests.REPLICAS for number in range(spec["pytorchReplicaSpecs"][kind]["replicas"])]
        master, workers = f"{name}-master-0", spec["nprocPerNode"]
        meets = {"MASTER_ADDR": master, "MASTER_PORT": self.PORT, "PET_MASTER_ADDR": master, "PET_MASTER_PORT": self.PORT}
        for rank, (kind, number) in enumerate(replicas):
            ranked = {"PYTHONUNBUFFERED": "1", **meets, "WORLD_SIZE": str(len(replicas) * int(workers)), "RANK": str(rank),
                      "PET_NPROC_PER_NODE": workers, "PET_NODE_RANK": str(rank), "PET_NNODES": str(len(replicas))}
            template = spec["pytorchReplicaSpecs"][kind]["template"]
            self.pods.append(Pod(self.world, self.world.machine(), f"{name}-{kind.lower()}-{number}", template, ranked))
        hosts = "".join(f"{pod.address} {pod.name}\n" for pod in self.pods)  # one headless service per pod
        for pod in self.pods:
            pod.learn(hosts)
            pod.start()
