"""Text and generate:language: what `data` says about them, and which options `train` refuses for them."""

import json

from program import ProgramTest

TEXT = ["--format", "text"]


class Text(ProgramTest):
    def setUp(self):
        super().setUp()
        lines = [" ".join(f"word{(7 * row + place) % 11}" for place in range(row % 5 + 1)) for row in range(60)]
        (self.folder / "book.txt").write_text("\r\n".join(lines) + "\n\n")
        (self.folder / "rows.txt").write_text("1 1:1\n0 2:1\n" * 20)

    def info(self, *arguments):
        return self.json_of("data", "info", "--json", *arguments)

    def test_a_text_is_described(self):
        facts = self.info(*TEXT, "--block", "16", "book.txt")
        self.assertEqual((facts["task"], facts["format"], facts["label_names"][0]), ("tokens", "text", "\n"))
        self.assertEqual(facts["tokens"]["dropped_returns"], 59)
        self.assertEqual(facts["tokens"]["targets_per_row"]["max"], 16)
        lines = self.info(*TEXT, "--tokens", "words", "--rows", "lines", "book.txt")
        self.assertEqual((lines["rows"], lines["tokens"]["kinds"], lines["tokens"]["empty_lines"]), (60, 13, 1))
        self.assertIn("1 empty lines are no rows",
                      self.run_program("data", "info", *TEXT, "--rows", "lines", "book.txt").stdout)
        self.run_program("data", "verify", *TEXT, "--block", "16", "book.txt")

    def test_a_converted_text_is_the_text(self):
        words = [*TEXT, "--tokens", "words", "--block", "8"]
        self.run_program("data", "convert", *words, "book.txt", "book.hsgd")
        text, stored = self.info(*words, "book.txt"), self.info("book.hsgd")
        for key in ("rows", "tokens", "label_names", "content_hash", "memory_bytes"):
            self.assertEqual(text[key], stored[key], key)
        self.refused(["data", "convert", "--to", "xc", *words, "book.txt", "book.xc"], "book.xc", True)
        (self.folder / "test.txt").write_text("word1 word2 other\n" * 8)
        self.run_program("data", "convert", *words, "--vocabulary", "book.txt", "test.txt", "test.hsgd")
        self.assertEqual(self.info("test.hsgd")["tokens"]["unknown_words"], 8)

    def test_the_entropy_of_the_language_is_known(self):
        bounds = self.info("generate:language?rows_train=100")["bounds"]
        self.assertLess(bounds["truth"], bounds["context_2"])
        self.assertLess(bounds["context_2"], bounds["context_1"])
        self.assertLess(bounds["context_0"], bounds["uniform"])
        self.assertNotIn("bounds", self.info("generate:tiny"))

    def test_rows_are_no_longer_than_the_model_takes(self):
        text = ["train", "--train", "book.txt", "--epochs", "1", *TEXT, "--print-config"]
        for model, block in (("gpt-micro", 64), ("gpt-micro?block=8", 8), ("gpt2", 256), ("mlp", 256), ("lenet-5", 256)):
            self.assertRegex(self.run_program(*text, "--model", model).stdout, rf"(?m)^block +{block}\b")

    def test_options_that_do_not_fit_a_text(self):
        text = ["train", "--train", "book.txt", "--epochs", "1", *TEXT, "--block", "8"]
        self.refuse_all(text, (
            (["--rows", "lines", "--augment", "shift"], "--augment", True),
            (["--augment", "shift", "--validation", "0.1"], "--augment", True),
            (["--augment", "flip"], "--augment"),
            (["--order", "bucketed"], "--order"),
            (["--model", "mlp"], "--model", True)))
        language = ["train", "--train", "generate:language?rows_train=100", "--epochs", "1"]
        self.refuse_all(language, ((["--augment", "shift"], "--augment"), (["--model", "linear"], "--model", True)))
        self.refused(["train", "--train", "rows.txt", "--epochs", "1", "--augment", "shift"], "--augment")
        self.refuse_all(["train", "--train", "rows.txt", "--epochs", "1"], (
            ("--schedule polynomial --decay-power 0", "--decay-power"),
            ("--schedule linear --warmup-epochs 1", "--decay-epochs"),
            ("--schedule inverse_sqrt", "--warmup-epochs", True),
            ("--warmup-share 0.1 --warmup-epochs 1", ("--warmup-share", "--warmup-epochs"))))

    def test_masked_tokens_cover_no_text(self):
        """So a network that predicts them alone has no bits per byte."""
        run = ["train", "--train", "book.txt", "--test", "tail:1/4", "--epochs", "1", *TEXT, "--block", "8", "--algorithm", "sgd",
               "--batch-size", "8", "--quiet", "--overwrite", "-o", "r.json", "--model"]
        self.refused([*run, "bert-micro?layers=1", "--target", "bits_per_byte<=2"], "--target", True)
        self.refuse_all([*run, "bert-micro?layers=1"], (
            ("--mask-share 0", "--mask-share"), ("--mask-share 1.1", "--mask-share"), ("--mask-split 0.8", "--mask-split", True),
            ("--mask-split 0.8,0.3", "--mask-split", True), ("--mask-split 0.8,-0.1", "--mask-split")))
        self.refused([*run, "gpt-micro?layers=1", "--mask-share", "0.2"], "--mask-share")
        for model, metrics in (("bert-micro?layers=1", {"perplexity", "accuracy"}),
                               ("gpt-micro?layers=1", {"perplexity", "accuracy", "bits_per_byte"})):
            self.run_program(*run, model)
            result = json.loads((self.folder / "r.json").read_text())
            summary = result["summary"]
            self.assertEqual(summary["tokens"], 8 * summary["samples_count"])
            self.assertAlmostEqual(summary["tokens_per_s"], 8 * summary["samples_per_s"])
            measured = {"perplexity", "accuracy", "bits_per_byte"} & set(result["curve"][-1])
            self.assertEqual(measured, metrics)

    def test_workers_of_unequal_rows_are_remarked_on(self):
        for lengths, remarks in (("", 0), ("&lengths=lognormal&median=4", 1)):
            done = self.run_program("train", "--train", f"generate:language?rows_train=100&steps=8{lengths}", "--epochs", "1",
                                    "--model", "gpt-micro?layers=1&width=16", "--algorithm", "ssgd", "--workers", "2")
            self.assertEqual(done.stderr.count("unequal numbers of targets"), remarks)

    def test_validate_checks_the_tokens(self):
        self.run_program("train", "--train", "generate:language?rows_train=100&steps=8", "--model", "gpt-micro?layers=1&width=16", "--epochs", "1",
                         "--algorithm", "sgd", "--quiet", "-o", "r.json")
        result = self.result("r.json")
        result["summary"]["tokens"] += 2
        (self.folder / "r.json").write_text(json.dumps(result))
        self.assertIn("/summary/tokens", self.run_program("validate", "r.json", code=4).stdout)

    def test_bad_texts_name_the_place(self):
        (self.folder / "latin.txt").write_bytes(b"caf\xe9\n" * 9)
        self.refused(["data", "info", *TEXT, "--block", "2", "latin.txt"], ("latin.txt:1: byte offset 3", "0xE9"),
                     "--tokens bytes", code=4)
        self.run_program("data", "info", *TEXT, "--block", "2", "--tokens", "bytes", "latin.txt")
        self.refused(["data", "info", *TEXT, "book.txt", "--block", "4000"], "book.txt", True, code=4)
