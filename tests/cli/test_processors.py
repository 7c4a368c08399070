"""One program for all processors: the kernel sets that it chooses from, on this processor and on emulated ones."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

from program import BINARY, LIMIT_S, ProgramTest, without_host

SETS = {set_: pathlib.Path(os.environ.get("HETSGD_BUILD_DIR", "")) / f"lib/hetsgd_cpu_{set_}.o" for set_ in ("v3", "v4")}
FLAGS = pathlib.Path("/proc/cpuinfo").read_text() if pathlib.Path("/proc/cpuinfo").exists() else ""
HAS_V4 = all(re.search(rf"\bavx512{part}\b", FLAGS) for part in ("f", "bw", "cd", "dq", "vl"))
TRAIN = ("train", "--train", "generate:tiny?scale=0.05", "--test", "generate:tiny?scale=0.05", "--hidden", "16", "--workers", "2",
         "--batch-size", "16", "--epochs", "1", "--algorithm", "ssgd", "-o", "run.json", "--overwrite")


@unittest.skipUnless(all(path.exists() for path in SETS.values()), "this build has one set of kernels (HETSGD_MARCH, a sanitizer)")
class Processors(ProgramTest):
    def emulated(self, cpu, *arguments, env=None):
        if not shutil.which("qemu-x86_64"):
            self.skipTest("qemu-x86_64 is not installed")
        return subprocess.run(["qemu-x86_64", "-cpu", cpu, BINARY, *arguments], cwd=self.folder, env=self.environment(env),
                              timeout=LIMIT_S, capture_output=True, text=True, check=False)

    def trained_with(self, set_, *more):
        """The result of a run with this kernel set; empty: with the one that the program chooses."""
        self.run_program(*TRAIN, *more, env={"HETSGD_CPU": set_})
        return without_host(self.result("run.json"))

    def test_v3_and_v4_give_the_same_bytes(self):
        if not HAS_V4:
            self.skipTest("the processor has no AVX-512")
        for precision in ("fp32", "bf16"):
            expected = self.trained_with("v3", "--precision", precision)
            self.assertGreater(len(expected["curve"]), 1)
            self.assertEqual(self.trained_with("v4", "--precision", precision), expected)
            self.assertEqual(self.trained_with("", "--precision", precision), expected)

    def test_a_set_that_the_processor_lacks_is_refused(self):
        self.refused(["algorithms"], ("HETSGD_CPU", '"v5"', "v4 or v3"), hint="without the variable", env={"HETSGD_CPU": "v5"})
        done = self.emulated("Haswell", "algorithms", env={"HETSGD_CPU": "v4"})
        self.assertEqual(done.returncode, 5, done.stderr)
        self.check_refusal("\n".join(line for line in done.stderr.splitlines() if not line.startswith("qemu")),
                           ("HETSGD_CPU", "found v4"), hint="without the variable")

    def test_a_processor_without_avx_512_runs_v3(self):
        expected = self.trained_with("v3")
        done = self.emulated("Haswell", *TRAIN)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(without_host(self.result("run.json")), expected)

    def test_a_processor_without_avx2_is_told_so(self):
        for arguments in (["--version"], ["doctor"], TRAIN):
            done = self.emulated("Nehalem", *arguments)
            self.assertEqual((done.returncode, done.stdout), (5, ""), done.stderr)
            self.assertIn("error: this processor lacks avx2", done.stderr)
            self.assertIn("\nhint: hetsgd needs AVX2", done.stderr)


@unittest.skipUnless(all(path.exists() for path in SETS.values()) and shutil.which("nm") and shutil.which("readelf"),
                     "one set of kernels, or no binutils")
class KernelSets(unittest.TestCase):
    """The linker takes one copy of a function of that many files for all of them: never that of a set."""

    def symbols(self, path):
        """(kind, name) of the symbols that other files see."""
        lines = subprocess.run(["nm", "--extern-only", path], capture_output=True, text=True, check=True).stdout.splitlines()
        return [tuple(line.split()[-2:]) for line in lines if line.strip()]

    def test_only_its_table_is_visible(self):
        for set_, path in SETS.items():
            symbols = self.symbols(path)
            self.assertEqual([name for kind, name in symbols if kind != "U"], [f"hetsgd_cpu_{set_}"])
            self.assertIn("memcpy", [name for kind, name in symbols if kind == "U"])
        in_program = [name for kind, name in self.symbols(BINARY) if name.startswith("hetsgd_cpu_")]
        self.assertEqual(sorted(in_program), ["hetsgd_cpu_v3", "hetsgd_cpu_v4"])

    def test_nothing_of_it_runs_before_it_is_chosen(self):
        for set_, path in SETS.items():
            sections = subprocess.run(["readelf", "--sections", "--wide", path], capture_output=True, text=True, check=True).stdout
            self.assertNotRegex(sections, r"\.(pre)?init_array|\.ctors|\.fini_array|COMDAT")
            self.assertIn(f" hetsgd_cpu_{set_}_constructors ", sections)


if __name__ == "__main__":
    unittest.main()
