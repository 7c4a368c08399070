"""Options, configurations and help: what is refused, which source wins, what is explained."""

import json
import pathlib
import re
import subprocess

from program import ProgramTest, TINY

RUN = ["train", *TINY, "--epochs", "1"]
MANUAL = pathlib.Path(__file__).resolve().parents[2] / "apps" / "hetsgd" / "README.md"


class Refusals(ProgramTest):
    def test_of_names(self):
        self.refuse_all([], (
            ("trian", '"trian"', "train"),
            ("data", ("data", "data info", "data verify")),
            ("train --batchsize 64", "--batchsize", "--batch-size"),
            ("train --lr 1", "--lr", "--learning-rate"),
            ("train --bs 1", "--bs", "--batch-size"),
            ("train --wd 1", "--wd", "--weight-decay"),
            ("train --algorithm ssgd --delta 0.2", "--delta", "adaptive"),
            ("train --train generate:tiny --model linear --hidden 8", "--hidden", "mlp"),
            ("train --algorithm adaptve", ("--algorithm", '"adaptve"'), "adaptive"),
            ("train --train generate:tiny --model mpl", ("--model", '"mpl"'), "mlp")))

    def test_of_values(self):
        self.refuse_all(["train", *TINY], (
            ("", ("--epochs", "no budget")),
            ("--batch-size 0", ("--batch-size", '"0"', "1 to 4194304")),
            ("--seed", "--seed"),
            ("--seed --epochs 3", ("--seed", "--epochs")),
            ("data.txt", ("train", '"data.txt"'), "--help"),
            ("--epochs 1 --target p1=0.5", ("--target", '"p1=0.5"')),
            ("--epochs 1 --hidden 1e18", ("--model", "mlp"), "hetsgd models mlp"),
            ("--epochs 1 --test tail:7", "--test")))
        self.refused(["train"], "--train")
        self.refused(["train", *TINY], ("HETSGD_SEED", '"one"'), env={"HETSGD_SEED": "one"})

    def test_of_counts_that_nobody_means(self):
        # Nothing is loaded, divided by zero or waited for.
        most = "18446744073709551615"
        self.refuse_all(["train", *TINY], (
            *((f"--{option} {value}", (f"--{option}", f'"{value}"')) for option in ("batch-size", "mega-batch", "host-threads")
              for value in (most, "9223372036854775808", "1000000000001")),
            ("--mega-batch 1e12 --batch-size 5M", ("--batch-size", '"5M"')), ("--epochs 1e300", "--epochs"),
            (f"--algorithm sma --tau {most}", "--tau"), (f"--algorithm local-sgd --local-steps {most}", "--local-steps"),
            (f"--algorithm ssp --staleness {most}", "--staleness"), (f"--algorithm esync --rounds {most}", "--rounds")))

    def test_of_data(self):
        self.refused(["train", "--train", "none.txt", "--epochs", "1"], ("none.txt", "No such file or directory"), code=4)
        for text, place in (("2 3 2\n0 1:x\n1 2:1\n", "d.txt:2:5"), ("2 3 2\n0 1:1\n1 3:1\n", "d.txt:3:3"), ("", "d.txt")):
            self.refused(["train", "--train", self.write("d.txt", text), "--epochs", "1"], place, code=4)

    def test_of_targets_that_these_data_cannot_show(self):
        self.write("two.txt", "".join(f"{'+1' if i % 2 else '-1'} {i % 5 + 1}:1\n" for i in range(40)))
        self.write("one.txt", "+1 1:1\n+1 2:1\n")
        train = ["train", "--train", "two.txt", "--batch-size", "4", "--epochs", "1", "-o", "r.json"]
        self.refuse_all(train, ((f"--target p1>=0.84 {more}", ("--target", "p1>=0.84", "accuracy, auc"), "accuracy")
                                for more in ("", "--stop-at-target", "--dry-run")))
        self.refused([*train, "--test", "one.txt", "--target", "auc>=0.8"], ("--target", "auc>=0.8"))
        self.assertFalse((self.folder / "r.json").exists())
        self.run_program(*train, "--target", "accuracy>=0.5", "--target", "auc>=0.5")

    def test_of_configurations(self):
        for text, code, *expected in (
                ('{"batchsize": 64}', 2, "c.json: batchsize", "batch_size"),
                ('{"batch_size": true}', 2, ("c.json: batch_size", '"true"')),
                ('{\n  "seed": }', 4, "c.json:2:11"),
                ('{"learning_rate": 1e400}', 4, ("c.json:1:19", '"1e400"')),
                ("[" * 100000, 4, "c.json:1:101")):
            self.refused(["train", "--config", self.write("c.json", text)], *expected, code=code)
        self.refused(["train", "--config", "."], ".", code=4)
        for command in (["validate"], [*RUN, "--profile"]):
            self.refused([*command, "c.json"], "c.json:1:101", code=4)
        self.write("c.json", '{"%s": 1}' % ("k" * 3000000))
        self.assertLess(len(self.refused(["train", "--config", "c.json"], "c.json")), 1000)

    def test_have_the_same_bounds_wherever_a_value_comes_from(self):
        for text in ("-1", "18446744073709551616", "1e400", "1.5"):
            self.write("c.json", '{"mega_batch": "%s"}' % text)
            found = [self.run_program("train", *TINY, *flags, code=2, env=env).stderr.split("found", 1)[1] for flags, env in (
                ([f"--mega-batch={text}"], {}), ([], {"HETSGD_MEGA_BATCH": text}), (["--config", "c.json"], {}))]
            self.assertEqual(len(set(found)), 1, found)


class Configuration(ProgramTest):
    def printed(self, *arguments, env=None):
        text = self.run_program("train", *arguments, "--print-config", env=env).stdout
        rows = [line.split(maxsplit=2) for line in text.splitlines()]
        return {row[0]: (row[1], row[2]) for row in rows}

    def test_precedence(self):
        self.write("c.json", {"algorithm": "adaptive", "batch_size": "1K", "seed": 3, "delta": 0.2, "gamma": 0.8})
        values = self.printed("--config", "c.json", "--seed", "5", "--gamma", "0.5",
                              env={"HETSGD_SEED": "4", "HETSGD_DELTA": "0.3"})
        for name, value in {"algorithm": ("adaptive", "config c.json: algorithm"), "batch_size": ("1000", "config c.json: batch_size"),
                            "seed": ("5", "flag --seed"), "delta": ("0.3", "environment HETSGD_DELTA"),
                            "gamma": ("0.5", "flag --gamma"), "pert_threshold": ("0.1", "default")}.items():
            self.assertEqual(values[name], value)
        # The algorithm of the environment brings its options, and a result is a configuration.
        values = self.printed("--delta", "0.4", env={"HETSGD_ALGORITHM": "adaptive"})
        self.assertEqual(values["delta"], ("0.4", "flag --delta"))
        self.train("r.json", "--seed", "7")
        self.assertEqual(self.printed("--config", "r.json")["seed"], ("7", "config r.json: seed"))

    def test_the_default_rate_is_printed_and_kept(self):
        values = self.printed("--algorithm", "asgd", "--workers", "4")
        self.assertEqual(values["learning_rate"], ("0.25", "default"))
        self.train("r.json", "--algorithm", "asgd", "--workers", "4")
        self.assertEqual(self.result("r.json")["config"]["learning_rate"], 0.25)
        self.run_program("rerun", "r.json", "--workers", "2", "-o", "again.json")
        self.assertEqual(self.result("again.json")["config"]["learning_rate"], 0.25)

    def test_a_method_for_several_workers_says_that_it_has_one(self):
        for algorithm in ("ssgd", "local-sgd", "hogwild"):
            run = ["train", *TINY, "--epochs", "1", "--algorithm", algorithm]
            self.assertRegex(self.run_program(*run).stderr, f"warning: {algorithm} trains one worker alone.*--workers")
            self.assertIn("alone", self.run_program(*run, "--dry-run").stderr)
            self.assertNotIn("alone", self.run_program(*run, "--workers", "1").stderr)
        for algorithm in ("sgd", "slide"):
            self.assertNotIn("alone", self.run_program("train", *TINY, "--epochs", "1", "--algorithm", algorithm).stderr)
        tune = ["tune", "--train", "generate:tiny", "--algorithms", "ssgd,asgd", "--grid", "0.3,1", "--epochs", "1"]
        said = self.run_program(*tune).stderr
        self.assertEqual([said.count(f"{algorithm} trains one worker alone") for algorithm in ("ssgd", "asgd")], [1, 1])

    def test_a_variable_that_is_no_option_is_a_warning(self):
        said = self.train("r.json", env={"HETSGD_BATCHSIZE": "3", "HETSGD_DELTA": "0.2"}).stderr
        self.assertRegex(said, "warning: HETSGD_BATCHSIZE: .*HETSGD_BATCH_SIZE")
        self.assertNotIn("HETSGD_DELTA", said)  # of another algorithm

    def test_a_budget_of_no_sample_is_one_of_one(self):
        # Not the budget 0, which is none.
        self.train("r.json", "--epochs", "1e-300")
        self.assertEqual(self.result("r.json")["status"], "completed")

    def test_a_plan_is_printed_and_nothing_is_run_or_written(self):
        plan = self.json_of("train", *TINY, "--epochs", "2", "--dry-run", "-o", "r.json", "--dump-parameters", "p.bin", "--trace",
                            "t.json", "--dump-initial-parameters", "i.bin")
        self.assertEqual(plan["config"]["epochs"], 2)
        self.assertGreater(plan["estimate"]["parameters"], 0)
        self.assertEqual(plan["warnings"], [])
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name != "cache"], [])

    def test_the_plan_has_the_warnings_that_can_be_foreseen(self):
        run = ["train", *TINY, "--epochs", "2", "--algorithm", "adaptive", "--workers", "2"]
        warning, = self.json_of(*run, "--dry-run")["warnings"]
        self.assertIn("--mega-batch", warning)
        self.assertEqual(self.run_program(*run).stderr.count(f"warning: {warning}\n"), 1)


class Help(ProgramTest):
    def test_of_every_command_opens_with_examples(self):
        commands = self.commands()
        self.assertLess({"train", "tune", "rerun", "data info", "bench all_reduce", "calibrate network", "completion"}, set(commands))
        for command in commands:
            with self.subTest(command):
                lines = self.run_program(*command.split(), "--help").stdout.splitlines()
                self.assertTrue(lines[0].startswith(f"hetsgd {command}: "))
                self.assertEqual(lines[2], "Examples:")
                self.assertGreaterEqual(sum("hetsgd" in line for line in lines[3:9]), 2)
        for words, part in ((["data", "--help"], "\n  data verify "), (["bench", "-h"], "  bench all_reduce")):
            self.assertIn(part, self.run_program(*words).stdout)
        self.assertIn("Usage: hetsgd COMMAND", self.run_program(code=2).stderr)

    @staticmethod
    def as_words(label, target):
        """A link of the manual as `hetsgd help` prints it."""
        if target.startswith("#"):
            place = "hetsgd help " + target[1:].replace("-", " ")
        else:
            path, _, _ = target.partition("#")
            place = str((MANUAL.parent / path).resolve().relative_to(MANUAL.parents[2]))
        return place if label == place else f"{label} ({place})"

    def test_of_a_topic_is_its_section_of_the_manual(self):
        listed = self.run_program("help").stdout
        self.assertTrue(listed.startswith(self.run_program("--help").stdout))
        for section in MANUAL.read_text().split("\n## ")[1:]:
            heading = section.partition("\n")[0].lower()
            self.assertIn(heading, " ".join(listed.split()))
            said = self.run_program("help", *heading.split()).stdout
            plain = re.sub(r"\[([^\]\n]+)\]\(([^)\s]+)\)", lambda link: self.as_words(*link.groups()), section)
            self.assertTrue(said.startswith("## " + plain.rstrip("\n")), heading)
            self.assertNotIn("](", said)
        self.assertEqual(re.findall("^## (.*)", self.run_program("help", "machines").stdout, re.M), ["Real machines", "Simulated machines"])
        for command in ("train", "calibrate network", "bench"):
            self.assertEqual(self.run_program("help", *command.split()).stdout, self.run_program(*command.split(), "--help").stdout)
        for word in ("stragglers", "data"):  # a topic, and a command or several
            self.assertTrue(self.run_program("help", word).stdout.endswith("\n\n" + self.run_program(word, "--help").stdout))
        self.refuse_all(["help"], (("straglers", ("help", '"straglers"', "exit codes"), '"stragglers"'), ("trian", "help", '"train"'),
                                   ("nothing of ours", "help", "hetsgd help"), ("train --batch-size", "--batch-size")))

    def test_the_manual_writes_commands_in_one_way(self):
        self.assertNotIn("build/release", MANUAL.read_text())

    def test_the_manual_has_every_type_and_key_of_a_network(self):
        section = MANUAL.read_text().partition("\n## Network files\n")[2].partition("\n## ")[0]
        schema = json.loads((MANUAL.parents[2] / "lib" / "graph" / "graph_schema.json").read_text())["definitions"]["node"]["properties"]
        for word in [*schema, *schema["type"]["enum"]]:
            self.assertIn(f"`{word}`" if word != "type" else "| type |", section)
        self.write("mine.json", re.search("```json\n(.*?)```", section, re.S).group(1))
        self.assertIn("network of 7 nodes", self.run_program("validate", "mine.json").stdout)
        self.run_program("train", "--train", "generate:images?size=8", "--model", "mine.json", "--max-samples", "64")

    def explained(self, *arguments):
        text = self.run_program("train", *arguments).stdout
        return re.findall(r"^(?:  -\w, | {6})(--[a-z0-9-]+)", text.split("Main options:")[1], re.M)

    def test_train_explains_few_options_and_the_first_ones_first(self):
        shown = self.explained("--help")
        self.assertLessEqual(len(shown), 80)
        self.assertEqual(set(shown[:10]), {"--train", "--test", "--model", "--algorithm", "--batch-size", "--learning-rate",
                                           "--workers", "--epochs", "--target", "--output"})
        self.assertEqual(len(shown), len(set(shown)))

    def test_an_option_is_explained_where_it_has_an_effect_and_else_named_with_what_it_needs(self):
        text = self.run_program("train", "--help").stdout
        self.assertRegex(text, r"with --optimizer adam\|lamb +--beta1, --beta2\n")
        self.assertIn("with --model dcn|deepfm|wide_deep", text)
        for flags, shown, hidden in (("", "--train", "--beta1"), ("", "--train", "--tables"), ("--optimizer adam", "--beta1", "--tables"),
                                     ("--model deepfm", "--tables", "--hot-fraction"),
                                     ("--algorithm adaptive", "--pert-threshold", "--staleness"),
                                     ("--optimizer sdg", "--train", "--beta1")):  # whatever else is wrong
            explained = self.explained(*flags.split(), "--help")
            self.assertIn(shown, explained, flags)
            self.assertNotIn(hidden, explained, flags)
        self.assertIn("--beta1", self.explained("--help-all"))

    def test_completion_scripts_are_scripts(self):
        probe = self.run_program("completion", "bash").stdout
        for words in ("train --algorithm ad", "train --pert-t", "data v", "bench all"):
            probe += f'COMP_WORDS=(hetsgd {words}); COMP_CWORD={len(words.split())}; _hetsgd\necho "${{COMPREPLY[@]}}"\n'
        done = subprocess.run(["bash", "-c", probe], capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        self.assertIn("adaptive", lines[0].split())
        self.assertEqual(lines[1:], ["--pert-threshold", "verify", "all_gather all_reduce all_to_all"])
        self.assertIn("bashcompinit", self.run_program("completion", "zsh").stdout)
        self.run_program("completion", "fish", code=2)
