#!/usr/bin/env python3
"""Runs GPU tests, sanitizers and benchmarks of hetsgd and writes one JSON file (scripts/gpu-check.sh).

Parts, in this order. Each runs even if others failed:
  devices       hetsgd devices, hetsgd doctor
  test/NAME     every GPU test program; memcheck/NAME, racecheck/NAME and initcheck/NAME run it under compute-sanitizer
  training/NAME runs with sharded embedding tables and with networks of images, whose rows and memory are on the GPU.
                Measured: the summary of the result
  checkpoint    training that is killed at random moments and goes on from its last checkpoint (check_resume.py): the
                parameters must be those of the run that was not killed
  placement/NAME training with the most frequently used rows on the GPU, and with random rows there, over their share
                and the drift of ids. Measured: summaries, and how many times as many samples per second hot rows give
  learners/NAME CROSSBOW (sma) with 1 to 4 learners on one device, and with its tuner. Measured: samples per second over
                learners, what the tuner measures and chooses
  hogbatch/NAME Hogbatch on the device with up to 16 cores, beside each alone. Measured: samples and updates per second
                of each kind of worker
  adaptive/NAME Adaptive SGD on the device and CPU workers of 8 and 2 cores, beside elastic averaging, synchronous SGD
                and the device alone. Measured: summaries, batch sizes, what each worker has done
  lookup        hetsgd bench lookup: stages of sharded tables, with gather and update relative to a copy (gather_share,
                update_share)
  ctr_step      time per step of click-through models, compared with PyTorch in eager mode (peers/compare_ctr_step_time.py)
  network/NAME  ResNet-50 in less memory than its liveness peak. Measured: seconds of an iteration over the seconds that
                were planned by the rates of hetsgd calibrate, and the GPU's used memory at most
  step_time     time per step at the Amazon-670k shape in fp32, tf32 and bf16, compared with PyTorch (eager and compiled)
                and the floor, and the memory of a step (peers/compare_step_time.py)
  all_reduce    hetsgd bench all_reduce over all GPUs, or over two workers that share a single GPU
  kernels       the kernel benchmarks (cuda_bench)

placement, learners, hogbatch, adaptive and network also have parts NAME_sim: the same run on --cluster sim by profiles
that hetsgd calibrate fits to these devices (parts calibrate_DEVICE). Their figures: simulated_step_s, measured_step_s
(seconds of an update) and simulated_over_measured. NAME_sim_saturation knows the measured throughput of several learners.

The JSON file has these keys:
  schema_version 1, started_at (UTC), seconds, device, hetsgd (hetsgd --version --json), status
  parts[]: name, command (list), status (passed, failed, skipped), reason (why it was skipped or failed, else null),
           exit_code (null: not run), seconds, figures (the measurements as the program printed them; null: none),
           output (its last lines)
The file is written after every part. A part is skipped, with a reason, if its program, the sanitizer, the GPU or PyTorch
is missing. Exit code: 0 no part failed, 1 a part failed, 77 there is no GPU.
"""

import argparse
import datetime
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from gpu_check_measurements import run_ctr_step, run_network, run_placement, run_training
from gpu_check_methods import run_adaptive, run_hogbatch, run_learners
from gpu_check_runs import Profiles, read_json

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SKIPPED = 77
PARTS = ("devices", "test", "memcheck", "racecheck", "initcheck", "training", "checkpoint", "placement", "learners", "hogbatch",
         "adaptive", "lookup", "ctr_step", "network", "step_time", "all_reduce", "kernels")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", default="gpu-check.json", help="JSON file to write (default: gpu-check.json)")
    parser.add_argument("--build-dir", help="build folder with the programs (default: build/release; a bundle needs none)")
    parser.add_argument("--device", default="cuda",
                        help="cuda, or cpu to try out this script: small versions of the parts that a CPU can run (default: cuda)")
    parser.add_argument("--small", action="store_true", help="use small sizes on GPUs, too, for emulated GPUs")
    parser.add_argument("--python", default=default_python(),
                        help="Python interpreter that can import torch (default: this one, or /usr/bin/python3)")
    parser.add_argument("--only", nargs="+", metavar="PART", choices=PARTS,
                        help=f"run only these parts: {', '.join(PARTS)} (default: all)")
    parser.add_argument("--timeout", type=float, default=900, help="time limit of one part, in seconds (default: 900)")
    return parser.parse_args()


def default_python():
    """The Python that can import torch: this one, else Debian's."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import torch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False).returncode == 0:
            return python
    return ""


class Check:
    """The parts so far, and the file that holds them."""

    def __init__(self, options):
        self.options = options
        self.start = time.monotonic()
        self.report = {"schema_version": 1, "started_at": datetime.datetime.now(datetime.UTC).isoformat(),
                       "seconds": 0.0, "device": options.device, "hetsgd": None, "status": "passed", "parts": []}

    def wanted(self, name):
        return not self.options.only or name.split("/")[0] in self.options.only

    def add(self, name, command, status, reason=None, exit_code=None, seconds=0.0, figures=None, output=""):
        self.report["parts"].append({"name": name, "command": command, "status": status, "reason": reason,
                                     "exit_code": exit_code, "seconds": round(seconds, 3), "figures": figures,
                                     "output": output[-2000:]})
        if status == "failed":
            self.report["status"] = "failed"
        self.report["seconds"] = round(time.monotonic() - self.start, 3)
        temporary = self.options.output + ".new"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(self.report, file, indent=1)
            file.write("\n")
        os.replace(temporary, self.options.output)
        print(f"{status:8} {seconds:7.1f} s  {name}{'  (' + reason + ')' if reason else ''}", flush=True)
        return status

    def skip(self, name, reason, command=()):
        if self.wanted(name):
            self.add(name, list(command), "skipped", reason)

    def run(self, name, command, figures=lambda text: None, folder=None, nothing_to_do=("", "")):
        """One part. `figures` makes the figures of its standard output. nothing_to_do: a text of the output that says
        that there was nothing to do, and the reason to give."""
        if not self.wanted(name):
            return None
        start = time.monotonic()
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                                  timeout=self.options.timeout, errors="replace", cwd=folder)
            code, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as error:
            code, output = None, (error.stdout or b"").decode(errors="replace")
            return self.add(name, command, "failed", f"took longer than {self.options.timeout:g} s", code,
                            time.monotonic() - start, None, output)
        except OSError as error:
            return self.add(name, command, "failed", str(error), None, time.monotonic() - start)
        seconds = time.monotonic() - start
        lines = output.strip().splitlines() or ["no output"]
        if code == SKIPPED:
            return self.add(name, command, "skipped", lines[-1], code, seconds, None, output)
        if nothing_to_do[0] and nothing_to_do[0] in output:
            return self.add(name, command, "skipped", nothing_to_do[1], code, seconds, None, output)
        found, reason = None, None if code == 0 else f"exit code {code}: {lines[-1]}"
        try:
            found = figures(output)
        except (ValueError, OSError, LookupError, ArithmeticError) as error:
            reason = reason or f"no figures: {error}"
        return self.add(name, command, "failed" if reason else "passed", reason, code, seconds, found, output)

    def run_json(self, name, command, figures=lambda document: document, option="--output", **more):
        """One part whose command writes a JSON document to the file that `option` names; `figures` makes the figures of the document.
        Returns the document, or None."""
        documents = []
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "output.json")

            def read(_):
                documents.append(read_json(path))
                return figures(documents[0])
            self.run(name, [*command, f"{option}={path}"], read, **more)
        return documents[0] if documents else None


def find_programs(options):
    """(hetsgd, test programs, benchmarks by name) of the bundle or of the build tree around this script."""
    if os.path.exists(os.path.join(ROOT, "bin", "hetsgd")) and not options.build_dir:
        hetsgd, folders = os.path.join(ROOT, "bin", "hetsgd"), [os.path.join(ROOT, "tests")]
    else:
        build = os.path.abspath(options.build_dir or os.path.join(ROOT, "build", "release"))
        hetsgd, folders = os.path.join(build, "apps", "hetsgd", "hetsgd"), glob.glob(os.path.join(build, "tests", "*"))
    programs = [path for folder in sorted(folders) for path in sorted(glob.glob(os.path.join(folder, "*")))
                if os.path.isfile(path) and os.access(path, os.X_OK)]
    tests = [path for path in programs if path.endswith(("_test", "_tests")) and "cuda" in os.path.basename(path)]
    return hetsgd, tests, {os.path.basename(path): path for path in programs if path.endswith("_bench")}


def gpu_count(hetsgd):
    """(number of GPUs, why there is none)."""
    try:
        text = subprocess.run([hetsgd, "devices", "--json"], stdout=subprocess.PIPE, check=True, text=True).stdout
        cuda = json.loads(text)["cuda"]
    except (OSError, subprocess.CalledProcessError, ValueError, KeyError) as error:
        return 0, str(error)
    return len(cuda["gpus"]), cuda["problem"] or "hetsgd devices lists no GPU"


def launcher():
    """The command that starts a test of several processes, which share the GPUs; None: there is no MPI."""
    mpirun = os.path.join(ROOT, "bin", "mpirun")
    if not os.path.exists(mpirun):
        mpirun = shutil.which("mpirun")
    if os.geteuid() == 0:  # Open MPI wants to be told twice
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return [mpirun, "--oversubscribe", "-n", "2"] if mpirun else None


def run_tests(check, tests, gpu):
    if not tests:
        check.skip("test", "found no GPU test program, expected those of HETSGD_TESTS=ON or of bundle.sh --tests")
    starts = {program: launcher() if program.endswith("_mpi_test") else [] for program in tests}
    for program in [program for program, start in starts.items() if start is None]:
        check.skip("test/" + os.path.basename(program), "found no mpirun", [program])
        del starts[program]
    for program, start in starts.items():
        check.run("test/" + os.path.basename(program), start + [program], folder=tempfile.gettempdir())
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    for tool in ("memcheck", "racecheck", "initcheck"):
        if not gpu or not sanitizer:
            check.skip(tool, "found no compute-sanitizer" if gpu else "no GPU")
            continue
        # Failed calls are no errors here: hetsgd checks each of them, and some tests use up the GPU's memory.
        command = [sanitizer, "--tool", tool, "--report-api-errors", "no", "--error-exitcode", "99"]
        for program, start in starts.items():
            check.run(f"{tool}/{os.path.basename(program)}", start + command + [program], folder=tempfile.gettempdir(),
                      nothing_to_do=("terminated before first instrumented API call", "calls no CUDA"))


def run_checkpoint(check, hetsgd, gpu, large):
    command = [sys.executable, "-B", os.path.join(HERE, "check_resume.py"), hetsgd, "--runs", "24" if large else "3"]
    check.run("checkpoint", command + ["--devices", "cuda:0,cuda:0" if gpu else "cpu:1,cpu:1"])


def run_lookup(check, hetsgd, gpu, large):
    command = [hetsgd, "bench", "lookup", "--format", "json"] + (["--gpu", "0"] if gpu else [])
    command += (["--rows", "32M", "--batch-size", "1024,8192,65536"] if large else
                ["--rows", "20K", "--iterations", "3", "--batch-size", "64"])
    check.run_json("lookup", command)


def run_step_time(check, hetsgd, device, large):
    command = [sys.executable, "-B", os.path.join(HERE, "peers", "compare_step_time.py"), hetsgd, "--device", device]
    command += ["--python", check.options.python or sys.executable]
    command += (["--seconds", "2"] if large else
                ["--scale", "0.01", "--batch-size", "32", "--steps", "5", "--seconds", "0.3"])
    check.run_json("step_time", command, option="--json")


def run_all_reduce(check, hetsgd, gpus, large):
    devices = "cpu:1,cpu:1" if gpus == 0 else "cuda:0,cuda:0" if gpus == 1 else "cuda:all"
    command = [hetsgd, "bench", "all_reduce", "--devices", devices, "--format", "json", "-f", "4", "--workers", str(max(2, gpus))]
    check.run_json("all_reduce", command + (["-e", "256M"] if large else ["-e", "1M", "-n", "3", "-w", "1"]))


def run_kernels(check, benchmarks, gpu, large):
    name = "cuda_bench" if gpu else "kernels_bench"
    if name not in benchmarks:
        check.skip("kernels", f"found no {name}, expected that of HETSGD_BENCHMARKS=ON or of bundle.sh --tests")
        return
    command = [benchmarks[name], "--benchmark_out_format=json"]
    if not large:
        command += ["--benchmark_filter=^gemm/forward_64", "--benchmark_min_time=0.02"]
    check.run_json("kernels", command, option="--benchmark_out",
                   nothing_to_do=("error while loading shared libraries", "a CUDA library was not found"))


def main():
    options = parse_arguments()
    hetsgd, tests, benchmarks = find_programs(options)
    if not os.path.exists(hetsgd):
        print(f"gpu-check.sh: found no {hetsgd}, expected hetsgd to be built; --build-dir names another build", file=sys.stderr)
        return 1
    gpus, problem = (0, "") if options.device == "cpu" else gpu_count(hetsgd)
    if options.device != "cpu" and gpus == 0:
        print(f"skipped: {problem}")
        return SKIPPED
    check = Check(options)
    check.report["hetsgd"] = json.loads(subprocess.run([hetsgd, "--version", "--json"], stdout=subprocess.PIPE,
                                                       check=True, text=True).stdout)
    check.run("devices", [hetsgd, "devices", "--json"], json.loads)
    check.run("devices/doctor", [hetsgd, "doctor"])
    run_tests(check, tests, gpus > 0)
    device, large = "cuda:0" if gpus > 0 else "cpu:1", gpus > 0 and not options.small
    run_training(check, hetsgd, device, large)
    run_checkpoint(check, hetsgd, gpus > 0, large)
    with tempfile.TemporaryDirectory() as folder:
        profiles = Profiles(check, hetsgd, folder, large)
        for run_part in (run_placement, run_learners, run_hogbatch, run_adaptive):
            run_part(check, hetsgd, device, large, profiles)
    run_lookup(check, hetsgd, gpus > 0, large)
    run_ctr_step(check, hetsgd, device, large)
    run_network(check, hetsgd, device, large)
    run_step_time(check, hetsgd, device, large)
    run_all_reduce(check, hetsgd, gpus, large)
    run_kernels(check, benchmarks, gpus > 0, large)
    print(f"{check.report['status']}: {options.output}")
    return 0 if check.report["status"] == "passed" else 1


if __name__ == "__main__":
    sys.exit(main())
