"""Wrong options, files and data: the exact message and exit code of each."""

import re
import unittest

from program import ProgramTest, TINY


class UnknownThings(ProgramTest):
    def test_command(self):
        self.assertEqual(self.error("trian", code=2),
                         'error: "trian": unknown command\nhint: did you mean train?\n')

    def test_half_a_command(self):
        self.assertEqual(self.error("data", code=2),
                         "error: data: expected one of data info, data convert, data generate, "
                         "data fetch, data verify\n")

    def test_half_a_command_has_help(self):
        text = self.run_program("data", "--help").stdout
        for name in ("info", "convert", "generate", "fetch", "verify"):
            self.assertIn(f"\n  data {name} ", text)
        self.assertIn("  bench all_reduce", self.run_program("bench", "-h").stdout)
        self.assertIn("hetsgd calibrate: fit a device profile", self.run_program("calibrate", "--help").stdout)

    def test_option_with_the_nearest_spelling(self):
        self.assertEqual(self.error("train", "--batchsize", "64", code=2),
                         "error: --batchsize: unknown option\nhint: did you mean --batch-size?\n")

    def test_option_by_its_initials(self):
        for flag, meant in (("--lr", "--learning-rate"), ("--bs", "--batch-size"), ("--wd", "--weight-decay")):
            self.assertEqual(self.error("train", flag, "1", code=2),
                             f"error: {flag}: unknown option\nhint: did you mean {meant}?\n")

    def test_option_of_another_algorithm(self):
        self.assertEqual(
            self.error("train", "--algorithm", "ssgd", "--delta", "0.2", code=2),
            "error: --delta: unknown option\nhint: --delta is an option of adaptive, not of ssgd\n")

    def test_option_of_an_algorithm_that_says_why_it_is_alone(self):
        self.assertEqual(
            self.error("train", "--algorithm", "adaptive", "--active", "tables", code=2),
            "error: --active: unknown option\nhint: --active is an option of slide, not of adaptive: slide samples the labels "
            "above the hidden layer of an mlp\n")

    def test_algorithm(self):
        message = self.error("train", "--algorithm", "adaptve", code=2)
        self.assertIn('error: --algorithm: found "adaptve", expected one of adaptive, ', message)
        self.assertIn("hint: did you mean adaptive?\n", message)

    def test_environment_variable_is_a_warning(self):
        done = self.train("r.json", env={"HETSGD_BATCHSIZE": "3"})
        self.assertIn("warning: HETSGD_BATCHSIZE: no option has this name; "
                      "did you mean HETSGD_BATCH_SIZE?\n", done.stderr)

    def test_environment_variable_of_another_algorithm_is_silent(self):
        self.assertNotIn("HETSGD_DELTA", self.train("r.json", env={"HETSGD_DELTA": "0.2"}).stderr)


class WrongValues(ProgramTest):
    def test_out_of_range(self):
        self.assertEqual(self.error("train", *TINY, "--batch-size", "0", code=2),
                         'error: --batch-size: found "0", expected a whole number from 1 to 4194304\n')

    def test_counts_that_nobody_means(self):
        # The bound is named; nothing is loaded, divided by zero or waited for.
        for option, most in (("batch-size", "1 to 4194304"), ("mega-batch", "1 to 1000000000000"),
                             ("host-threads", "0 to 4096")):
            for value in ("18446744073709551615", "9223372036854775808", "1000000000001"):
                message = self.error("train", *TINY, "--" + option, value, code=2)
                self.assertIn(f'error: --{option}: found "{value}", expected a', message)
        self.assertEqual(self.error("train", *TINY, "--mega-batch", "1e12", "--batch-size", "5M", code=2),
                         'error: --batch-size: found "5M", expected a whole number from 1 to 4194304\n')
        self.assertIn("expected a number from 0 to 1000000000", self.error("train", *TINY, "--epochs", "1e300", code=2))
        for algorithm, option in (("sma", "tau"), ("local-sgd", "local-steps"), ("ssp", "staleness"),
                                  ("esync", "rounds")):
            self.assertIn("1000000000000\n", self.error(
                "train", *TINY, "--algorithm", algorithm, "--" + option, "18446744073709551615", code=2))

    def test_a_budget_of_no_sample_is_one_of_one(self):
        # Not the budget 0, which is none.
        self.train("r.json", "--epochs", "1e-300")
        self.assertEqual(self.result("r.json")["status"], "completed")

    def test_a_model_that_does_not_fit(self):
        message = self.error("train", *TINY, "--epochs", "1", "--hidden", "1e18", code=2)
        self.assertRegex(message, r"^error: --model: mlp has 5\.51e\+08T parameters of these data and needs at least "
                                  r"[0-9.e+]+ PiB of memory, this machine has [0-9.]+ [MGT]iB\n"
                                  r"hint: .*`hetsgd models mlp` has its options\n$")

    def test_the_same_bounds_hold_wherever_a_value_comes_from(self):
        for text in ("-1", "18446744073709551616", "1e400", "1.5"):
            found = []
            for where in ("flag", "environment", "file"):
                (self.folder / "c.json").write_text('{"mega_batch": "%s"}' % text)
                done = self.run_program("train", *TINY,
                                        *{"flag": [f"--mega-batch={text}"], "environment": [],
                                          "file": ["--config", "c.json"]}[where], code=2,
                                        env={"HETSGD_MEGA_BATCH": text} if where == "environment" else {})
                found.append(done.stderr.split("found", 1)[1])
            self.assertEqual(len(set(found)), 1, found)

    def test_choice(self):
        said = self.error("train", *TINY, "--model", "mpl", code=2)
        self.assertTrue(said.startswith('error: --model: found "mpl", expected one of alexnet, dcn, deepfm, fm,'), said)
        self.assertTrue(said.endswith("wide_deep\nhint: did you mean mlp?\n"), said)

    def test_missing_value(self):
        self.assertEqual(self.error("train", "--seed", code=2),
                         "error: --seed: 1 required value missing\n")
        self.assertEqual(self.error("train", "--seed", "--epochs", "3", code=2),
                         "error: --seed: found the option --epochs, expected a value\n")

    def test_operand(self):
        self.assertEqual(self.error("train", "data.txt", code=2),
                         'error: train: found "data.txt", expected options only\n'
                         "hint: hetsgd train --help shows how\n")

    def test_environment(self):
        self.assertIn('error: HETSGD_SEED: found "one", expected',
                      self.error("train", *TINY, code=2, env={"HETSGD_SEED": "one"}))

    def test_target(self):
        self.assertIn('error: --target: found "p1=0.5", expected METRIC>=VALUE or METRIC<=VALUE\n',
                      self.error("train", *TINY, "--epochs", "1", "--target", "p1=0.5", code=2))

    def test_target_that_these_data_cannot_show(self):
        rows = "".join(f"{'+1' if i % 2 else '-1'} {i % 5 + 1}:1\n" for i in range(40))
        (self.folder / "two.txt").write_text(rows)
        (self.folder / "one.txt").write_text("+1 1:1\n+1 2:1\n")
        train = ["train", "--train", "two.txt", "--batch-size", "4", "--epochs", "1", "-o", "r.json"]
        message = ("error: --target: found p1>=0.84, but p1 is not measured on binary data, expected one of "
                   "accuracy, auc, test_loss, train_loss\n"
                   "hint: the metric that says most about these data is accuracy\n")
        for more in ([], ["--stop-at-target"], ["--dry-run"]):
            with self.subTest(more):
                self.assertIn(message, self.error(*train, "--target", "p1>=0.84", *more, code=2))
        self.assertIn("error: --target: found auc>=0.8, but all test rows are of one class, expected both for auc\n",
                      self.error(*train, "--test", "one.txt", "--target", "auc>=0.8", code=2))
        self.assertFalse((self.folder / "r.json").exists())
        self.run_program(*train, "--target", "accuracy>=0.5", "--target", "auc>=0.5")

    def test_no_budget(self):
        self.assertEqual(self.error("train", *TINY, code=2),
                         "error: no budget: expected --epochs, --max-samples or --max-time\n"
                         "hint: for example --epochs 5\n")

    def test_no_data(self):
        self.assertIn("error: --train: no training data given\n", self.error("train", code=2))


class Data(ProgramTest):
    def broken(self, text):
        (self.folder / "d.txt").write_text(text)
        return self.error("train", "--train", "d.txt", "--epochs", "1", code=4)

    def test_missing_file(self):
        message = self.error("train", "--train", "none.txt", "--epochs", "1", code=4)
        self.assertIn("none.txt", message)
        self.assertIn("No such file or directory", message)

    def test_broken_line_is_named_by_line_and_column(self):
        self.assertIn("error: d.txt:2:5: ", self.broken("2 3 2\n0 1:x\n1 2:1\n"))

    def test_index_out_of_range(self):
        self.assertIn("error: d.txt:3:3: ", self.broken("2 3 2\n0 1:1\n1 3:1\n"))

    def test_not_a_number(self):
        self.assertIn("error: d.txt:2:5: ", self.broken("1 3 2\n0 1:nan\n"))

    def test_empty_file(self):
        self.assertIn("error: d.txt", self.broken(""))


class Configuration(ProgramTest):
    def printed(self, *arguments, env=None):
        text = self.run_program("train", *arguments, "--print-config", env=env).stdout
        rows = [line.split(maxsplit=2) for line in text.splitlines()]
        return {row[0]: (row[1], row[2]) for row in rows}

    def test_precedence(self):
        (self.folder / "c.json").write_text(
            '{"algorithm": "adaptive", "batch_size": "1K", "seed": 3, "delta": 0.2, "gamma": 0.8}')
        values = self.printed("--config", "c.json", "--seed", "5", "--gamma", "0.5",
                              env={"HETSGD_SEED": "4", "HETSGD_DELTA": "0.3"})
        self.assertEqual(values["algorithm"], ("adaptive", "config c.json: algorithm"))
        self.assertEqual(values["batch_size"], ("1000", "config c.json: batch_size"))
        self.assertEqual(values["seed"], ("5", "flag --seed"))
        self.assertEqual(values["delta"], ("0.3", "environment HETSGD_DELTA"))
        self.assertEqual(values["gamma"], ("0.5", "flag --gamma"))
        self.assertEqual(values["pert_threshold"], ("0.1", "default"))

    def test_algorithm_from_the_environment_brings_its_options(self):
        values = self.printed("--delta", "0.4", env={"HETSGD_ALGORITHM": "adaptive"})
        self.assertEqual(values["delta"], ("0.4", "flag --delta"))

    def test_unknown_key(self):
        (self.folder / "c.json").write_text('{"batchsize": 64}')
        self.assertEqual(self.error("train", "--config", "c.json", code=2),
                         "error: c.json: batchsize: unknown option\n"
                         "hint: did you mean batch_size?\n")

    def test_wrong_type(self):
        (self.folder / "c.json").write_text('{"batch_size": true}')
        self.assertEqual(self.error("train", "--config", "c.json", code=2),
                         'error: c.json: batch_size: found "true", expected a count such as 5000 '
                         'or "10K"\n')

    def test_broken_json(self):
        (self.folder / "c.json").write_text('{\n  "seed": }')
        self.assertEqual(self.error("train", "--config", "c.json", code=4),
                         'error: c.json:2:11: found "}", expected JSON\n')

    def test_what_is_no_configuration(self):
        self.assertEqual(self.error("train", "--config", ".", code=4),
                         "error: .: is a directory, expected a file\n")
        (self.folder / "c.json").write_text('{"learning_rate": 1e400}')
        self.assertEqual(self.error("train", "--config", "c.json", code=4),
                         'error: c.json:1:19: found "1e400", a number too large for a double, expected JSON\n')
        (self.folder / "c.json").write_text("[" * 100000)
        self.assertIn("error: c.json:1:101: found objects and lists inside each other",
                      self.error("train", "--config", "c.json", code=4))
        self.assertIn("error: c.json:1:101: ", self.error("validate", "c.json", code=4))
        self.assertIn("error: c.json:1:101: ", self.error("train", *TINY, "--epochs", "1", "--profile", "c.json", code=4))
        (self.folder / "c.json").write_text('{"%s": 1}' % ("k" * 3000000))
        self.assertLess(len(self.error("train", "--config", "c.json", code=2)), 1000)

    def test_a_result_is_a_configuration(self):
        self.train("r.json", "--seed", "7")
        values = self.printed("--config", "r.json")
        self.assertEqual(values["seed"], ("7", "config r.json: seed"))

    def test_dry_run_prints_a_plan_and_runs_nothing(self):
        import json
        done = self.run_program("train", *TINY, "--epochs", "2", "--dry-run", "-o", "r.json")
        plan = json.loads(done.stdout)
        self.assertEqual(plan["config"]["epochs"], 2)
        self.assertGreater(plan["estimate"]["parameters"], 0)
        self.assertEqual(plan["warnings"], [])
        self.assertFalse((self.folder / "r.json").exists())

    def test_the_plan_has_the_warnings_that_can_be_foreseen(self):
        import json
        run = ["train", *TINY, "--epochs", "2", "--algorithm", "adaptive", "--workers", "2"]
        warnings = json.loads(self.run_program(*run, "--dry-run").stdout)["warnings"]
        self.assertEqual(len(warnings), 1)
        self.assertIn("--mega-batch", warnings[0])
        said = self.run_program(*run).stderr
        for warning in warnings:
            self.assertEqual(said.count(f"warning: {warning}\n"), 1)

    def test_the_plan_writes_nothing(self):
        self.run_program("train", *TINY, "--epochs", "1", "--dry-run", "--dump-parameters", "p.bin", "--trace", "t.json",
                         "--dump-initial-parameters", "i.bin")
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name != "cache"], [])


class Help(ProgramTest):
    COMMANDS = ("train", "tune", "compare", "validate", "rerun", "data info", "data convert",
                "data generate", "data verify", "algorithms", "models", "stragglers", "devices", "calibrate",
                "calibrate network",
                "bench all_reduce", "bench all_gather", "bench reduce_scatter", "bench broadcast",
                "bench all_to_all", "doctor", "completion")

    def test_every_help_opens_with_examples(self):
        for command in self.COMMANDS:
            with self.subTest(command):
                text = self.run_program(*command.split(), "--help").stdout
                lines = text.splitlines()
                self.assertTrue(lines[0].startswith(f"hetsgd {command}: "))
                self.assertEqual(lines[2], "Examples:")
                self.assertGreaterEqual(sum("hetsgd" in line for line in lines[3:9]), 2)

    def test_program_help_names_every_command(self):
        text = self.run_program("--help").stdout
        for command in self.COMMANDS:
            self.assertIn(f"\n  {command} ", text)

    def test_help_shows_the_options_of_the_algorithm(self):
        text = self.run_program("train", "--algorithm", "adaptive", "-h").stdout
        self.assertIn("--pert-threshold NUMBER", text)
        self.assertIn("Options of adaptive:", text)

    def explained(self, *arguments):
        text = self.run_program("train", *arguments).stdout
        return re.findall(r"^(?:  -\w, | {6})(--[a-z0-9-]+)", text.split("First of all:")[1], re.M)

    def test_train_explains_few_options_and_the_first_ones_first(self):
        shown = self.explained("--help")
        self.assertLessEqual(len(shown), 80)
        self.assertEqual(set(shown[:10]), {"--train", "--test", "--model", "--algorithm", "--batch-size", "--learning-rate",
                                           "--workers", "--epochs", "--target", "--output"})
        self.assertEqual(len(shown), len(set(shown)))

    def test_an_option_without_effect_is_named_with_what_it_needs(self):
        text = self.run_program("train", "--help").stdout
        self.assertRegex(text, r"with --optimizer adam\|lamb +--beta1, --beta2\n")
        self.assertIn("with --model dcn|deepfm|wide_deep", text)
        self.assertNotIn("--beta1", self.explained("--help"))
        self.assertIn("--beta1", self.explained("--optimizer", "adam", "--help"))
        self.assertIn("--beta1", self.explained("--help-all"))
        self.assertNotIn("--tables", self.explained("--help"))
        deepfm = self.explained("--model", "deepfm", "--help")
        self.assertIn("--tables", deepfm)
        self.assertNotIn("--hot-fraction", deepfm)

    def test_help_comes_whatever_else_is_wrong(self):
        self.assertIn("--train", self.explained("--optimizer", "sdg", "--help"))

    def test_nothing_is_a_usage_error(self):
        self.assertIn("Usage: hetsgd COMMAND", self.error(code=2))

    def test_completion_scripts_are_scripts(self):
        import subprocess
        script = self.run_program("completion", "bash").stdout
        probe = script + ('COMP_WORDS=(hetsgd train --algorithm ad); COMP_CWORD=3; _hetsgd\n'
                          'echo "${COMPREPLY[@]}"\n'
                          'COMP_WORDS=(hetsgd train --pert-t); COMP_CWORD=2; _hetsgd\n'
                          'echo "${COMPREPLY[@]}"\n'
                          'COMP_WORDS=(hetsgd data v); COMP_CWORD=2; _hetsgd\n'
                          'echo "${COMPREPLY[@]}"\n'
                          'COMP_WORDS=(hetsgd bench all); COMP_CWORD=2; _hetsgd\n'
                          'echo "${COMPREPLY[@]}"\n')
        done = subprocess.run(["bash", "-c", probe], capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        self.assertIn("adaptive", lines[0].split())
        self.assertEqual(lines[1:], ["--pert-threshold", "verify", "all_gather all_reduce all_to_all"])
        self.assertIn("bashcompinit", self.run_program("completion", "zsh").stdout)
        self.error("completion", "fish", code=2)


if __name__ == "__main__":
    unittest.main()
