"""Plays a command on one of the machines in machines/: python on.py node-a reboot

Each machine is a tree of files as its kernel and its packages show them. The commands change what the real ones change:

  reboot                                       starts the kernel module that the initramfs and the packages give
  update-initramfs -u                          copies /etc/modprobe.d into the initramfs
  modprobe nvidia                              loads the module of the installed driver
  apt-get install nvidia-driver=VERSION        installs module and libraries: 535.183.06 570.133.20 570.172.08 580.82.07
  nvidia-modprobe -u -c 0                      makes the device files
  nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml
  nvidia-ctk runtime configure --runtime=containerd
  pip install torch==VERSION                   2.7.0+cu128 or 2.9.0+cu130

This file needs no change.
"""

import shutil
import sys
from pathlib import Path

KERNEL = "6.8.0-60-generic"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LIMITS = "Limit Soft Hard Units\nMax open files            1048576              1048576              files\n"
DRIVERS = ("535.183.06", "570.133.20", "570.172.08", "580.82.07")
TORCH = {"2.7.0+cu128": "12.8", "2.9.0+cu130": "13.0"}
GPUS = ("0000:10:00.0", "0000:11:00.0")


class BrokenMachine:
    """One machine: a folder with the files of its root."""

    def __init__(self, name):
        self.root = Path("machines") / name

    def write(self, path, text=""):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def read(self, path):
        file = self.root / path
        return file.read_text() if file.exists() else ""

    def installed(self):
        """Version of the driver's packages."""
        return self.read("var/lib/dpkg/nvidia-driver").strip()

    def loaded(self):
        return (self.read("proc/modules").split() or [""])[0]

    def install_driver(self, version):
        for file in (self.root / LIBRARIES).glob("lib*.so.*"):
            file.unlink()
        self.write("var/lib/dpkg/nvidia-driver", version)
        for library in ("libcuda", "libnvidia-ml"):
            self.write(f"{LIBRARIES}/{library}.so.{version}")

    def load(self, module):
        self.write("proc/modules", f"{module} 1 1 - Live 0x0\n")
        for address in GPUS:
            self.write(f"sys/bus/pci/devices/{address}/driver", module)
        if module == "nvidia":
            line = f"NVIDIA UNIX Open Kernel Module for x86_64  {self.installed()}  Release Build"
            self.write("proc/driver/nvidia/version", f"NVRM version: {line}\n")
            self.write("var/log/kern.log", self.read("var/log/kern.log") + f"kernel: NVRM: loading {line}\n")
            self.make_devices("nvidiactl", "nvidia0", "nvidia1")

    def make_devices(self, *names):
        for name in names:
            self.write(f"dev/{name}")

    def make_cdi(self, version):
        self.write("etc/cdi/nvidia.yaml", f"kind: nvidia.com/gpu\nhostPath: /{LIBRARIES}/libcuda.so.{version}\n")

    def configure_runtime(self):
        self.write("etc/containerd/config.toml", 'BinaryName = "/usr/bin/nvidia-container-runtime"\n')

    def install_torch(self, version):
        packages = self.root / "opt/venv/site-packages"
        shutil.rmtree(packages, ignore_errors=True)
        info = f"opt/venv/site-packages/torch-{version}.dist-info"
        self.write(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        version_file = f"__version__ = '{version}'\ncuda = '{TORCH[version]}'\n"
        self.write("opt/venv/site-packages/torch/version.py", version_file)


def reboot(node):
    """Start the kernel: /proc and /dev are new, and nouveau comes first unless the initramfs blocks it."""
    for folder in ("proc/driver", "dev"):
        shutil.rmtree(node.root / folder, ignore_errors=True)
    node.write("dev/shm/empty")
    node.write("var/log/kern.log", f"kernel: Linux version {KERNEL}\n")
    if node.read("boot/has-nouveau") and "blacklist nouveau" not in node.read("boot/initramfs"):
        node.load("nouveau")
        return "started with nouveau"
    node.load("nvidia")
    node.make_devices("nvidia-uvm")
    return f"started with nvidia {node.installed()}"


def update_initramfs(node):
    files = sorted((node.root / "etc/modprobe.d").glob("*.conf"))
    node.write("boot/initramfs", "".join(file.read_text() for file in files))
    return f"update-initramfs: Generating /boot/initrd.img-{KERNEL}"


def modprobe(node):
    if node.loaded() == "nouveau":
        sys.exit("modprobe: ERROR: could not insert 'nvidia': No such device (nouveau holds the GPUs)")
    return "" if node.loaded() == "nvidia" else node.load("nvidia")


def make_nodes(node):
    if node.loaded() != "nvidia":
        sys.exit("nvidia-modprobe: the module nvidia is not loaded")
    return node.make_devices("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1")


def install(node, package):
    kind, _, version = package.partition("=")
    if kind != "nvidia-driver" or version not in DRIVERS:
        sys.exit(f"E: Unable to locate package {package}; there are: {' '.join(DRIVERS)}")
    node.install_driver(version)
    return f"Setting up nvidia-driver ({version}) ...\nThe loaded module stays until the next reboot."


def pip_install(node, package):
    version = package.removeprefix("torch==")
    if version not in TORCH:
        sys.exit(f"ERROR: No matching distribution found for {package} (from versions: {', '.join(TORCH)})")
    node.install_torch(version)
    return f"Successfully installed torch-{version}"


def generate_cdi(node):
    if node.installed() not in node.read("proc/driver/nvidia/version"):
        sys.exit("nvidia-ctk: failed to initialize NVML: Driver/library version mismatch")
    return node.make_cdi(node.installed())


def play(node, words):
    """Play one command and return its output."""
    match words:
        case ["reboot"]:
            return reboot(node)
        case ["update-initramfs", "-u"]:
            return update_initramfs(node)
        case ["modprobe", "nvidia"]:
            return modprobe(node)
        case ["nvidia-modprobe", "-u", "-c", "0"]:
            return make_nodes(node)
        case ["apt-get", "install", *_, package]:
            return install(node, package)
        case ["pip", "install", package]:
            return pip_install(node, package)
        case ["nvidia-ctk", "cdi", "generate", "--output=/etc/cdi/nvidia.yaml"]:
            return generate_cdi(node)
        case ["nvidia-ctk", "runtime", "configure", "--runtime=containerd"]:
            return node.configure_runtime()
    sys.exit(f"unknown command: {' '.join(words)}\n{__doc__}")


def build(name, loaded, installed, torch):
    """Build a healthy machine."""
    node = BrokenMachine(name)
    shutil.rmtree(node.root, ignore_errors=True)
    node.write("etc/hostname", f"{name}\n")
    node.write("proc/sys/kernel/osrelease", f"{KERNEL}\n")
    node.write("proc/self/limits", LIMITS)
    node.write("proc/1/comm", "systemd\n")
    node.write("proc/77/comm", "chronyd\n")
    node.write("usr/bin/nvidia-ctk")
    for address in GPUS:
        for file, text in {"vendor": "0x10de", "device": "0x2330", "class": "0x030200", "driver": "nvidia"}.items():
            node.write(f"sys/bus/pci/devices/{address}/{file}", text)
    node.install_driver(loaded)
    reboot(node)
    node.make_cdi(loaded)
    node.configure_runtime()
    node.install_torch(torch)
    node.install_driver(installed)
    return node


def build_all():
    """Build the machines, and break each in its own way."""
    build("node-a", "570.133.20", "570.172.08", "2.7.0+cu128")
    second = build("node-b", "570.172.08", "570.172.08", "2.7.0+cu128")
    second.write("boot/has-nouveau", "yes")
    reboot(second)
    third = build("node-c", "570.172.08", "570.172.08", "2.9.0+cu130")
    (third.root / "dev/nvidia-uvm").unlink()
    (third.root / "etc/containerd/config.toml").write_text("version = 2\n")
    (third.root / "etc/cdi/nvidia.yaml").unlink()


if __name__ == "__main__":
    if sys.argv[1:] == ["--build"]:
        build_all()
    elif len(sys.argv) > 2 and Path("machines", sys.argv[1]).is_dir():
        print(play(BrokenMachine(sys.argv[1]), sys.argv[2:]) or "done")
    else:
        sys.exit(__doc__)
