#!/usr/bin/env python3
"""Checks the manifests of configs/kubernetes against Kubernetes' own schemas (kubernetes-validate, which tools/setup
--test-tools installs), and checks values that must fit each other. ctest runs it as kubernetes.schemas."""
import copy
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "kubernetes.d"))
import manifests

OLDEST, NEWEST = "1.31", "1.37"  # required by the manifest's head; newest known to kubernetes-validate


def check(document, version):
    """Raises kubernetes_validate.ValidationError for what that Kubernetes would reject, including unknown fields."""
    import kubernetes_validate
    if document["kind"] == "PyTorchJob":  # Kubernetes has no schema for it, but its pods are pods
        for name, template in manifests.templates(document).items():
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"train-{name.lower()}-0"}, **copy.deepcopy(template)}
            kubernetes_validate.validate(pod, version, strict=True)
        return
    kubernetes_validate.validate(document, version, strict=True)


class SchemasTest(unittest.TestCase):
    def test_every_document_is_valid(self):
        self.assertGreaterEqual(len(manifests.files()), 2)
        for path in manifests.files():
            for document in manifests.documents(path):
                for version in (OLDEST, NEWEST):
                    with self.subTest(file=os.path.basename(path), kind=document["kind"], version=version):
                        check(document, version)

    def test_a_fault_would_be_seen(self):
        import kubernetes_validate
        job, pytorch = (manifests.of_kind(*place) for place in (("training-job.yaml", "Job"), ("pytorch-job.yaml", "PyTorchJob")))
        container = job["spec"]["template"]["spec"]["containers"][0]
        container["readinessProbes"] = container.pop("readinessProbe")
        manifests.templates(pytorch)["Worker"]["spec"]["containers"][0]["env"][0]["valueFrom"]["secretKeyRef"] = "mtrun-token"
        for document in (job, pytorch):
            with self.assertRaises(kubernetes_validate.ValidationError):
                check(document, NEWEST)


class PodsTest(unittest.TestCase):
    """Tests the pods of all manifests: the Pod Security Standard "restricted", and a root that is read-only."""

    def setUp(self):
        self.pods = {(os.path.basename(path), name): template["spec"] for path in manifests.files()
                     for document in manifests.documents(path) for name, template in manifests.templates(document).items()}
        self.assertEqual(len(self.pods), 3)

    def test_pods_run_as_a_user_without_rights(self):
        for place, pod in self.pods.items():
            with self.subTest(place):
                context = pod["securityContext"]
                self.assertIs(context["runAsNonRoot"], True)
                self.assertGreater(context["runAsUser"], 0)
                self.assertEqual(context["seccompProfile"], {"type": "RuntimeDefault"})
                for container in pod["containers"]:
                    own = container["securityContext"]
                    self.assertIs(own["allowPrivilegeEscalation"], False)
                    self.assertEqual(own["capabilities"], {"drop": ["ALL"]})
                    self.assertFalse({"privileged", "runAsUser", "runAsNonRoot", "seccompProfile"} & set(own), "overrides the pod's")

    def test_pods_have_no_credential_for_kubernetes(self):
        for place, pod in self.pods.items():
            with self.subTest(place):
                self.assertIs(pod["automountServiceAccountToken"], False)

    def test_root_is_read_only_and_the_folders_of_mtrun_are_not(self):
        for place, pod in self.pods.items():
            with self.subTest(place):
                (container,), volumes = pod["containers"], {volume["name"]: volume for volume in pod["volumes"]}
                self.assertIs(container["securityContext"]["readOnlyRootFilesystem"], True)
                mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
                self.assertEqual({mount["name"] for mount in mounts.values()}, set(volumes))
                self.assertEqual(volumes[mounts["/tmp"]["name"]], {"name": mounts["/tmp"]["name"], "emptyDir": {}})
                logs = {variable["name"]: variable.get("value") for variable in container["env"]}.get("XDG_STATE_HOME", "/home/mtrun")
                (mount,) = [mount for path, mount in mounts.items() if logs.startswith(path)]
                self.assertNotIn("readOnly", mount)


class JobTest(unittest.TestCase):
    """Tests training-job.yaml."""

    def setUp(self):
        self.job, self.service, self.budget = (manifests.of_kind("training-job.yaml", kind)
                                               for kind in ("Job", "Service", "PodDisruptionBudget"))
        self.spec, self.pod = self.job["spec"], self.job["spec"]["template"]["spec"]
        (self.container,) = self.pod["containers"]

    def test_it_is_elastic(self):
        self.assertEqual(self.spec["completionMode"], "Indexed")
        self.assertEqual(self.spec["completions"], self.spec["parallelism"])  # so that both can change
        least, most = manifests.flag(self.container, "nnodes").split(":")
        self.assertEqual(self.spec["parallelism"], int(most))
        self.assertEqual(self.budget["spec"]["minAvailable"], int(least))

    def test_pods_meet_under_the_name_of_the_first(self):
        host, port = manifests.flag(self.container, "rdzv_endpoint").split(":")
        self.assertEqual(host, f"{self.job['metadata']['name']}-0.{self.service['metadata']['name']}")
        self.assertEqual(self.pod["subdomain"], self.service["metadata"]["name"])
        self.assertEqual(self.service["spec"]["ports"][0]["port"], int(port))
        self.assertEqual((self.service["spec"]["clusterIP"], self.service["spec"]["publishNotReadyAddresses"]), ("None", True))
        wanted = {"batch.kubernetes.io/job-name": self.job["metadata"]["name"]}  # set by Kubernetes
        self.assertEqual(self.service["spec"]["selector"], wanted)
        self.assertEqual(self.budget["spec"]["selector"]["matchLabels"], wanted)

    def test_there_is_time_for_a_checkpoint(self):
        self.assertGreater(self.pod["terminationGracePeriodSeconds"], float(manifests.flag(self.container, "shutdown_timeout")) + 10)

    def test_a_pod_that_waits_for_the_first_is_left_alone(self):
        startup = self.container["startupProbe"]
        self.assertGreater(startup["periodSeconds"] * startup["failureThreshold"], 600)  # join_timeout

    def test_failure_policy_is_one_that_kubernetes_takes(self):
        self.assertEqual(self.pod["restartPolicy"], "Never")
        self.assertEqual(self.spec["podReplacementPolicy"], "Failed")
        for rule in self.spec["podFailurePolicy"]["rules"]:
            if "onExitCodes" in rule:
                codes = rule["onExitCodes"]
                self.assertEqual(codes["containerName"], self.container["name"])
                self.assertEqual(codes["values"], sorted(set(codes["values"])))
                self.assertNotIn(143, codes["values"])  # drained

    def test_names_lead_somewhere(self):
        ports = {port["name"] for port in self.container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            self.assertIn(self.container[probe]["httpGet"]["port"], ports)
        self.assertEqual({mount["name"] for mount in self.container["volumeMounts"]}, {volume["name"] for volume in self.pod["volumes"]})

    def test_the_token_is_a_file_for_its_readers_alone(self):
        (secret,) = [volume["secret"] for volume in self.pod["volumes"] if "secret" in volume]
        self.assertEqual(secret["defaultMode"], 0o400)
        self.assertEqual(manifests.flag(self.container, "token_file"), "/etc/mtrun/token")
        self.assertNotIn("MTRUN_TOKEN", [variable["name"] for variable in self.container["env"]])


if __name__ == "__main__":
    manifests.enter_environment("kubernetes.schemas")
    unittest.main()
