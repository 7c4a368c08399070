"""Click data from outside: generate, look at, convert, verify, split by time."""

import json
import unittest

from program import ProgramTest


class Clicks(ProgramTest):
    def setUp(self):
        super().setUp()
        self.run_program("data", "generate", "criteo", "--scale", "0.00005", "clicks")

    def info(self, *arguments):
        return json.loads(self.run_program("data", "info", "--json", *arguments).stdout)

    def test_text_and_generator_are_the_same_data(self):
        text = self.info("clicks_train.txt")
        made = self.info("generate:criteo?scale=0.00005")
        self.assertEqual(text["format"], "criteo")
        for key in ("rows", "fields", "dense_columns", "categories", "per_field", "labels_per_row"):
            self.assertEqual(text[key], made[key], key)
        self.assertEqual(text["fields"], 26)
        self.assertNotIn("ceiling", text)
        self.assertGreater(made["ceiling"]["auc"], made["ceiling_without_pairs"]["auc"])
        self.assertLess(made["ceiling_of_vocabulary"]["auc"], made["ceiling"]["auc"])

    def test_the_options_of_the_vocabulary(self):
        few, many = self.info("clicks_train.txt"), self.info("--min-frequency", "1", "clicks_train.txt")
        self.assertGreater(many["categories"], few["categories"])
        for field in many["per_field"]:
            self.assertEqual(field["categories"], field["distinct_values"] + 2)
            self.assertEqual(field["rare_share"], 0)
        hashed = self.info("--hash-size", "64", "clicks_train.txt")
        self.assertEqual({field["categories"] for field in hashed["per_field"]}, {66})

    def test_people_read_it_too(self):
        text = self.run_program("data", "info", "generate:ctr-tiny").stdout
        self.assertIn("ceiling without pairs", text)
        self.assertIn("distinct values", text)
        self.assertNotIn("nonzeros", text)

    def test_convert_and_verify(self):
        self.run_program("data", "convert", "clicks_train.txt", "train.hsgd")
        self.run_program("data", "convert", "--vocabulary", "clicks_train.txt", "clicks_test.txt", "test.hsgd")
        self.run_program("data", "verify", "train.hsgd", "test.hsgd", "clicks_train.txt")
        self.assertEqual(self.info("train.hsgd")["per_field"], self.info("clicks_train.txt")["per_field"])
        self.assertEqual(self.info("test.hsgd")["categories"], self.info("train.hsgd")["categories"])
        self.assertIn("click data cannot be written as XC text",
                      self.error("data", "convert", "--to", "xc", "train.hsgd", "x", code=2))

    def test_generate_has_one_format_for_each_kind(self):
        self.assertIn("found xc, expected criteo",
                      self.error("data", "generate", "criteo", "--format", "xc", "x", code=2))
        self.assertIn("found criteo, expected xc",
                      self.error("data", "generate", "tiny", "--format", "criteo", "x", code=2))
        self.assertIn("ctr-tiny has 3 dense columns",
                      self.error("data", "generate", "ctr-tiny", "--format", "criteo", "x", code=2))

    def test_models_of_sparse_features_refuse_them(self):
        for model in ("mlp", "linear", "fm"):
            for data in (["--train", "clicks_train.txt", "--test", "tail:1/7"],
                         ["--train", "generate:ctr-tiny", "--test", "generate:ctr-tiny"]):
                said = self.error("train", *data, "--model", model, "--epochs", "1", code=2)
                self.assertIn(f"--model: {model} reads sparse features", said)
                self.assertIn("dcn, deepfm, wide_deep", said)

    def test_the_tail_of_a_log_read_once_in_the_order_of_time(self):
        arguments = ["train", "--train", "clicks_train.txt", "--test", "tail:1/7", "--order", "sequential",
                     "--epochs", "1", "--model", "deepfm", "--hidden", "4", "--embedding-dim", "4"]
        self.run_program(*arguments, "-o", "r.json")
        result = self.result("r.json")
        rows = len((self.folder / "clicks_train.txt").read_text().splitlines())
        self.assertEqual(result["dataset"]["train"]["rows"], rows - round(rows / 7))
        self.assertEqual(result["dataset"]["test"]["rows"], round(rows / 7))
        self.assertEqual(result["dataset"]["train"]["format"], "criteo")

    def test_a_tail_that_is_none(self):
        self.assertIn("expected a share above 0 and below 1",
                      self.error("train", "--train", "generate:tiny", "--test", "tail:7", "--epochs", "1", code=2))

    def test_the_tail_of_sparse_data(self):
        self.run_program("train", "--train", "generate:tiny", "--test", "tail:1/8", "--order", "sequential",
                         "--epochs", "1", "--hidden", "4", "-o", "r.json")
        dataset = self.result("r.json")["dataset"]
        self.assertEqual(dataset["train"]["rows"], 1750)
        self.assertEqual(dataset["test"]["rows"], 250)

    def test_a_mistake_is_told_by_its_place(self):
        with open(self.folder / "clicks_train.txt", "a") as file:
            file.write("1\t" * 39 + "x\n")
        rows = len((self.folder / "clicks_train.txt").read_text().splitlines())
        said = self.error("data", "verify", "clicks_train.txt", code=4)
        self.assertIn(f"clicks_train.txt:{rows}:29: C1: found '1'", said)


if __name__ == "__main__":
    unittest.main()
