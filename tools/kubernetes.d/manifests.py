"""The manifests of configs/kubernetes, as Kubernetes and its operators read them."""
import glob
import os
import re
import sys

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
FOLDER = os.path.join(TOP, "configs", "kubernetes")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "mtrun")
PYTHON = os.path.join(CACHE, "manifests", "bin", "python")
REPLICAS = ("Master", "Worker")  # of a PyTorchJob, in order of rank


def skip(test, why):
    """Ends the program like a skipped GoogleTest test, whose reason tools/summarize_tests reads."""
    print(f"{test}: Skipped\n{why}\n\n[  SKIPPED ] {test}")
    sys.exit(0)


def enter_environment(test):
    """Re-executes in the Python environment of tools/setup --test-tools, which can read YAML and has the schemas."""
    try:
        import kubernetes_validate  # noqa: F401
        import yaml  # noqa: F401
    except ImportError:
        if os.path.realpath(sys.prefix) == os.path.realpath(os.path.dirname(os.path.dirname(PYTHON))) or not os.path.exists(PYTHON):
            skip(test, "no kubernetes-validate here")
        os.execv(PYTHON, [PYTHON, *sys.argv])


def files():
    return sorted(glob.glob(os.path.join(FOLDER, "*.yaml")))


def documents(path):
    import yaml
    with open(path, encoding="utf-8") as file:
        return [document for document in yaml.safe_load_all(file) if document]


def of_kind(name, kind):
    """Returns the document of that kind in FOLDER/name."""
    (found,) = [document for document in documents(os.path.join(FOLDER, name)) if document["kind"] == kind]
    return found


def templates(document):
    """Returns name -> pod template of the objects that start pods."""
    if document["kind"] == "PyTorchJob":
        replicas = document["spec"]["pytorchReplicaSpecs"]
        return {name: replicas[name]["template"] for name in REPLICAS}
    return {"": document["spec"]["template"]} if "template" in document.get("spec", {}) else {}


def expand(text, environment):
    """Replaces $(NAME) like kubelet: unknown names stay, $$ is a dollar."""
    def value(found):
        return "$" + found[0][2:] if found[0].startswith("$$") else environment.get(found[1], found[0])
    return re.sub(r"\$\$(?:\([A-Za-z_]\w*\))?|\$\(([A-Za-z_]\w*)\)", value, text)


def flag(container, name):
    """Returns the value of --name=VALUE in the arguments."""
    (found,) = [word.split("=", 1)[1] for word in container["args"] if word.startswith(f"--{name}=")]
    return found
