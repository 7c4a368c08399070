"""Click data from outside: generate, look at, convert, verify, split by time."""


from program import ProgramTest


class Clicks(ProgramTest):
    def setUp(self):
        super().setUp()
        self.run_program("data", "generate", "criteo", "--scale", "0.00005", "clicks")
        self.rows = len((self.folder / "clicks_train.txt").read_text().splitlines())

    def info(self, *arguments):
        return self.json_of("data", "info", "--json", *arguments)

    def test_text_and_generator_are_the_same_data(self):
        text, made = self.info("clicks_train.txt"), self.info("generate:criteo?scale=0.00005")
        self.assertEqual((text["format"], text["fields"]), ("criteo", 26))
        windows = (self.folder / "clicks_train.txt").read_bytes().replace(b"\n", b"\r\n")
        (self.folder / "windows.txt").write_bytes(windows)
        for other in (made, self.info("windows.txt")):
            for key in ("rows", "fields", "dense_columns", "categories", "per_field", "labels_per_row"):
                self.assertEqual(text[key], other[key], key)
        self.assertNotIn("ceiling", text)
        self.assertGreater(made["ceiling"]["auc"], made["ceiling_without_pairs"]["auc"])
        self.assertLess(made["ceiling_of_vocabulary"]["auc"], made["ceiling"]["auc"])
        shown = self.run_program("data", "info", "generate:ctr-tiny").stdout
        self.assertIn("ceiling without pairs", shown)
        self.assertNotIn("nonzeros", shown)

    def test_the_options_of_the_vocabulary(self):
        few, many = self.info("clicks_train.txt"), self.info("--min-frequency", "1", "clicks_train.txt")
        self.assertGreater(many["categories"], few["categories"])
        for field in many["per_field"]:
            self.assertEqual((field["categories"], field["rare_share"]), (field["distinct_values"] + 2, 0))
        hashed = self.info("--hash-size", "64", "clicks_train.txt")
        self.assertEqual({field["categories"] for field in hashed["per_field"]}, {66})

    def test_convert_and_verify(self):
        self.run_program("data", "convert", "clicks_train.txt", "train.hsgd")
        self.run_program("data", "convert", "--vocabulary", "clicks_train.txt", "clicks_test.txt", "test.hsgd")
        self.run_program("data", "verify", "train.hsgd", "test.hsgd", "clicks_train.txt")
        self.assertEqual(self.info("train.hsgd")["per_field"], self.info("clicks_train.txt")["per_field"])
        self.assertEqual(self.info("test.hsgd")["categories"], self.info("train.hsgd")["categories"])
        self.run_program("data", "convert", "--to", "xc", "train.hsgd", "x", code=2)
        with open(self.folder / "clicks_train.txt", "a") as file:
            file.write("1\t" * 39 + "x\n")
        self.refused(["data", "verify", "clicks_train.txt"], f"clicks_train.txt:{self.rows + 1}:29: C1", code=4)

    def test_what_does_not_go_with_them(self):
        for preset, form in (("criteo", "xc"), ("tiny", "criteo"), ("ctr-tiny", "criteo")):
            self.run_program("data", "generate", preset, "--format", form, "x", code=2)
        for model in ("mlp", "linear", "fm"):
            for data in ("--train clicks_train.txt --test tail:1/7", "--train generate:ctr-tiny --test generate:ctr-tiny"):
                said = self.refused(["train", *data.split(), "--model", model, "--epochs", "1"], ("--model", model))
                self.assertIn("dcn, deepfm, wide_deep", said)

    def test_the_tail_is_read_once_in_the_order_of_time(self):
        for data, model, rows, share in (("clicks_train.txt", ["--model", "deepfm", "--embedding-dim", "4"], self.rows, 7),
                                         ("generate:tiny", [], 2000, 8)):
            self.run_program("train", "--train", data, "--test", f"tail:1/{share}", "--order", "sequential", "--epochs", "1",
                             "--hidden", "4", *model, "-o", "r.json", "--overwrite")
            dataset = self.result("r.json")["dataset"]
            self.assertEqual((dataset["train"]["rows"], dataset["test"]["rows"]), (rows - round(rows / share), round(rows / share)))
